# The libraries that come out of the folders.
#   sluice_internal  everything, for programs that use internal headers (unit tests)
#   sluice_shared    libsluice.so: exports what runtime/sluice.h declares with SLUICE_API
#   sluice_static    libsluice.a: the same names are its only global ones
set(layers sluice_runtime sluice_alloc sluice_io sluice_prefetch sluice_kernel_image)
set(layer_objects "")
foreach(layer IN LISTS layers)
  list(APPEND layer_objects $<TARGET_OBJECTS:${layer}>)
endforeach()
list(APPEND layer_objects $<TARGET_OBJECTS:sluice_mimalloc_object>)

# In the build tree <sluice.h> forwards to the header in runtime/: that folder itself must not be on
# the path, where its limits.h would stand in for the system's.
set(SLUICE_PUBLIC_INCLUDE_DIR "${PROJECT_BINARY_DIR}/generated/include")
file(CONFIGURE OUTPUT "${SLUICE_PUBLIC_INCLUDE_DIR}/sluice.h"
  CONTENT "#include \"${PROJECT_SOURCE_DIR}/runtime/sluice.h\"\n")

# The export list comes from the public headers; the linker reads it as a version script.
file(GLOB public_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/runtime/sluice.h"
     "${PROJECT_SOURCE_DIR}/runtime/sluice_experimental.h")
set(export_map "${PROJECT_BINARY_DIR}/generated/exports.map")
set(SLUICE_EXPORT_LIST "${PROJECT_BINARY_DIR}/generated/exports.txt")
set(exports_script "${PROJECT_SOURCE_DIR}/tools/build/exports.py")
add_custom_command(OUTPUT "${export_map}" "${SLUICE_EXPORT_LIST}"
  COMMAND Python3::Interpreter "${exports_script}" --node SLUICE_0.1 --map "${export_map}"
          --list "${SLUICE_EXPORT_LIST}" ${public_headers}
  COMMAND "${CMAKE_COMMAND}" -E touch_nocreate "${export_map}" "${SLUICE_EXPORT_LIST}"
  DEPENDS "${exports_script}" ${public_headers}
  COMMENT "Exports of the public header" VERBATIM)
add_custom_target(sluice_exports DEPENDS "${export_map}" "${SLUICE_EXPORT_LIST}")

add_library(sluice_internal STATIC ${layer_objects})
set_target_properties(sluice_internal PROPERTIES LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/internal")
target_compile_definitions(sluice_internal PUBLIC SLUICE_STATIC=1)
target_link_libraries(sluice_internal PUBLIC sluice_settings sluice_fmt sluice_json sluice_xxhash
  sluice_liburing sluice_mimalloc sluice_cuda_headers PRIVATE ${SLUICE_SYSTEM_LIBRARIES})

add_library(sluice_shared SHARED ${layer_objects})
add_library(sluice::sluice ALIAS sluice_shared)
set_target_properties(sluice_shared PROPERTIES OUTPUT_NAME sluice EXPORT_NAME sluice
  LINKER_LANGUAGE CXX VERSION ${PROJECT_VERSION} SOVERSION 0
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
  LINK_DEPENDS "${export_map}")
add_dependencies(sluice_shared sluice_exports)
target_link_libraries(sluice_shared PRIVATE sluice_settings ${SLUICE_SYSTEM_LIBRARIES})
target_link_options(sluice_shared PRIVATE ${SLUICE_STATIC_CXX_RUNTIME})
if(WIN32)
  # SLUICE_API marks what a DLL exports. os_windows.cpp says what the wrapped function is about.
  target_link_options(sluice_shared PRIVATE LINKER:--wrap=pthread_key_delete)
  set_target_properties(sluice_shared PROPERTIES PREFIX ""
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}"
    ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
else()
  # nodelete: thread-exit destructors outlive dlclose.
  target_link_options(sluice_shared PRIVATE "LINKER:--version-script=${export_map}"
    LINKER:--exclude-libs,ALL LINKER:-z,nodelete LINKER:-z,defs LINKER:--as-needed)
endif()
target_include_directories(sluice_shared INTERFACE "$<BUILD_INTERFACE:${SLUICE_PUBLIC_INCLUDE_DIR}>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

if(SLUICE_SANITIZE OR WIN32)
  # Sanitizers keep tables of symbols that must not be made local, and objects of Windows can't be
  # joined into one; neither is shipped.
  add_library(sluice_static STATIC ${layer_objects})
  target_link_libraries(sluice_static PUBLIC sluice_settings ${SLUICE_SYSTEM_LIBRARIES})
else()
  # One relocatable object of everything, in which only the C API stays global. Groups are resolved
  # here: a program's copy of an inline function must not replace ours, whose symbol is local.
  set(merged "${PROJECT_BINARY_DIR}/generated/sluice_merged.o")
  set(joined "${PROJECT_BINARY_DIR}/generated/sluice_joined.o")
  set(object_list "${PROJECT_BINARY_DIR}/generated/objects.rsp")
  file(GENERATE OUTPUT "${object_list}" CONTENT "$<JOIN:${layer_objects},\n>\n")
  add_custom_command(OUTPUT "${merged}"
    COMMAND "${CMAKE_LINKER}" -r --force-group-allocation -o "${joined}" "@${object_list}"
            ${SLUICE_SYSTEM_LIBRARIES}
    COMMAND "${CMAKE_OBJCOPY}" "--keep-global-symbols=${SLUICE_EXPORT_LIST}" "${joined}" "${merged}"
    COMMAND "${CMAKE_COMMAND}" -E rm -f "${joined}"
    DEPENDS ${layer_objects} "${object_list}" "${SLUICE_EXPORT_LIST}" ${layers}
            sluice_mimalloc_object
    COMMENT "One object for libsluice.a" VERBATIM)
  set_source_files_properties("${merged}" PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(sluice_static STATIC "${merged}")
  # A C program names the C++ runtime; in this tree the linker driver does, as each target wants it.
  target_link_libraries(sluice_static INTERFACE Threads::Threads ${CMAKE_DL_LIBS} m
    $<INSTALL_INTERFACE:stdc++>)
endif()
add_dependencies(sluice_static sluice_exports)
add_library(sluice::sluice_static ALIAS sluice_static)
set_target_properties(sluice_static PROPERTIES OUTPUT_NAME sluice LINKER_LANGUAGE CXX
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_compile_definitions(sluice_static INTERFACE SLUICE_STATIC=1)
target_include_directories(sluice_static INTERFACE "$<BUILD_INTERFACE:${SLUICE_PUBLIC_INCLUDE_DIR}>"
  "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

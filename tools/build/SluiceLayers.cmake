# sluice_add_layer(folder): the object library sluice_<folder> of all *.cpp in that folder (not
# below it), without those of another platform.
if(WIN32)
  set(SLUICE_OTHER_PLATFORM "_linux\\.cpp$")
else()
  set(SLUICE_OTHER_PLATFORM "_windows\\.cpp$")
endif()

# An object library needs a source; this one stands in for a folder that has none yet.
set(SLUICE_EMPTY_SOURCE "${PROJECT_BINARY_DIR}/generated/empty.cpp")
if(NOT EXISTS "${SLUICE_EMPTY_SOURCE}")
  file(WRITE "${SLUICE_EMPTY_SOURCE}" "// A folder without sources.\n")
endif()

# sluice_sources(out folder): its *.cpp for this platform, found again whenever the build runs.
function(sluice_sources out folder)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  list(FILTER sources EXCLUDE REGEX "${SLUICE_OTHER_PLATFORM}")
  if(NOT sources)
    set(sources "${SLUICE_EMPTY_SOURCE}")
  endif()
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

function(sluice_add_layer folder)
  sluice_sources(sources "${CMAKE_CURRENT_SOURCE_DIR}")
  add_library(sluice_${folder} OBJECT ${sources})
  target_compile_definitions(sluice_${folder} PRIVATE SLUICE_BUILDING=1
    SLUICE_VERSION_STRING="${PROJECT_VERSION}")
  target_link_libraries(sluice_${folder} PRIVATE sluice_settings sluice_warnings sluice_fmt
    sluice_json sluice_xxhash sluice_liburing sluice_mimalloc sluice_cuda_headers)
endfunction()

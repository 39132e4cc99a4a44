# Settings that every target of the house shares. Targets of a parent project are not touched:
# all flags travel on sluice_settings and sluice_warnings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  # -g1: line numbers for stack traces at a tenth of the size; `cmake --install --strip` removes
  # them. Sanitizer builds keep assertions; with ASan and UBSan g++ takes four times as long at -O2.
  set(optimize "-O2 -g1 -DNDEBUG")
  if(SLUICE_SANITIZE STREQUAL "address")
    set(optimize "-Og -g1")
  elseif(SLUICE_SANITIZE STREQUAL "thread")
    set(optimize "-O1 -g1")
  endif()
  set(CMAKE_CXX_FLAGS_RELEASE "${optimize}" CACHE STRING "" FORCE)
  set(CMAKE_C_FLAGS_RELEASE "${optimize}" CACHE STRING "" FORCE)
endif()

add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE
  -Wall -Wextra -Wconversion -Wshadow $<$<BOOL:${SLUICE_WERROR}>:-Werror>)

add_library(sluice_settings INTERFACE)
target_include_directories(sluice_settings INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_features(sluice_settings INTERFACE cxx_std_20)
# -fno-gnu-unique: a unique symbol can't be made local, and would pin a library that is dlclosed.
target_compile_options(sluice_settings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
find_package(Threads REQUIRED)
target_link_libraries(sluice_settings INTERFACE Threads::Threads ${CMAKE_DL_LIBS})

set(SLUICE_SANITIZE_FLAGS "")
if(SLUICE_SANITIZE STREQUAL "address")
  set(SLUICE_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined
      -fno-omit-frame-pointer)
elseif(SLUICE_SANITIZE STREQUAL "thread")
  set(SLUICE_SANITIZE_FLAGS -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT SLUICE_SANITIZE STREQUAL "")
  message(FATAL_ERROR "SLUICE_SANITIZE is '${SLUICE_SANITIZE}': use address, thread or nothing")
endif()
target_compile_options(sluice_settings INTERFACE ${SLUICE_SANITIZE_FLAGS})
target_link_options(sluice_settings INTERFACE ${SLUICE_SANITIZE_FLAGS})
if(SLUICE_SANITIZE)
  set(SLUICE_STATIC_CXX_RUNTIME "")
else()
  # What ships needs nothing but libc: the C++ runtime comes along.
  set(SLUICE_STATIC_CXX_RUNTIME -static-libstdc++ -static-libgcc)
endif()

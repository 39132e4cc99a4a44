# What the house builds on. tools/setup installs all of it.

# A cross compiler must not see /usr/include, but header-only libraries serve it as well: it gets
# them as links in a folder of their own.
set(SLUICE_HOST_HEADERS "")
if(CMAKE_CROSSCOMPILING)
  set(SLUICE_HOST_HEADERS "${PROJECT_BINARY_DIR}/generated/host_headers")
  file(MAKE_DIRECTORY "${SLUICE_HOST_HEADERS}")
  foreach(name fmt nlohmann xxhash.h CLI doctest)
    if(EXISTS "/usr/include/${name}")
      file(CREATE_LINK "/usr/include/${name}" "${SLUICE_HOST_HEADERS}/${name}" SYMBOLIC)
    endif()
  endforeach()
endif()

function(sluice_require_header out header package)
  if(SLUICE_HOST_HEADERS)
    find_path(${out} ${header} PATHS "${SLUICE_HOST_HEADERS}" PATH_SUFFIXES ${ARGN}
      NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  else()
    find_path(${out} ${header} PATH_SUFFIXES ${ARGN})
  endif()
  if(NOT ${out})
    message(FATAL_ERROR "${header} not found: run tools/setup, or install Debian's ${package}")
  endif()
  mark_as_advanced(${out})
endfunction()

# One header-only library per include folder; system headers, so that their warnings stay theirs.
# Nothing is added for /usr/include itself: naming it breaks #include_next.
function(sluice_header_library name dir)
  add_library(${name} INTERFACE)
  if(NOT dir STREQUAL "/usr/include")
    target_include_directories(${name} SYSTEM INTERFACE "${dir}")
  endif()
endfunction()

sluice_require_header(SLUICE_FMT_DIR fmt/format.h libfmt-dev)
sluice_header_library(sluice_fmt "${SLUICE_FMT_DIR}")
target_compile_definitions(sluice_fmt INTERFACE FMT_HEADER_ONLY=1)
sluice_require_header(SLUICE_JSON_DIR nlohmann/json.hpp nlohmann-json3-dev)
sluice_header_library(sluice_json "${SLUICE_JSON_DIR}")
sluice_require_header(SLUICE_XXHASH_DIR xxhash.h libxxhash-dev)
sluice_header_library(sluice_xxhash "${SLUICE_XXHASH_DIR}")
if(SLUICE_BUILD_TOOLS)
  sluice_require_header(SLUICE_CLI11_DIR CLI/CLI.hpp libcli11-dev)
  sluice_header_library(sluice_cli11 "${SLUICE_CLI11_DIR}")
endif()
if(SLUICE_BUILD_TESTS)
  sluice_require_header(SLUICE_DOCTEST_DIR doctest.h doctest-dev doctest)
  sluice_header_library(sluice_doctest "${SLUICE_DOCTEST_DIR}")
  if(SLUICE_DOCTEST_DIR MATCHES "/doctest$")
    cmake_path(GET SLUICE_DOCTEST_DIR PARENT_PATH doctest_parent)  # <doctest/doctest.h>
    if(NOT doctest_parent STREQUAL "/usr/include")
      target_include_directories(sluice_doctest SYSTEM INTERFACE "${doctest_parent}")
    endif()
  endif()
endif()

# SLUICE_SYSTEM_LIBRARIES: of the platform, linked into both libraries.
if(WIN32)
  set(SLUICE_SYSTEM_LIBRARIES psapi shell32 user32 advapi32 bcrypt)
  add_library(sluice_liburing INTERFACE)
else()
  # liburing: the static archive, merged into both.
  sluice_require_header(SLUICE_LIBURING_DIR liburing.h liburing-dev)
  find_library(SLUICE_LIBURING_ARCHIVE NAMES liburing.a)
  if(NOT SLUICE_LIBURING_ARCHIVE)
    message(FATAL_ERROR "liburing.a not found: run tools/setup, or install Debian's liburing-dev")
  endif()
  mark_as_advanced(SLUICE_LIBURING_ARCHIVE)
  sluice_header_library(sluice_liburing "${SLUICE_LIBURING_DIR}")
  set(SLUICE_SYSTEM_LIBRARIES "${SLUICE_LIBURING_ARCHIVE}")
endif()

# mimalloc: one C file, without malloc override, so that a process's own malloc stays what it is.
if(NOT EXISTS "${SLUICE_MIMALLOC_SOURCE_DIR}/src/static.c")
  message(FATAL_ERROR "mimalloc's source is not in ${SLUICE_MIMALLOC_SOURCE_DIR}: run tools/setup, "
          "or set SLUICE_MIMALLOC_SOURCE_DIR")
endif()
add_library(sluice_mimalloc_object OBJECT "${SLUICE_MIMALLOC_SOURCE_DIR}/src/static.c")
target_include_directories(sluice_mimalloc_object SYSTEM PRIVATE
  "${SLUICE_MIMALLOC_SOURCE_DIR}/include")
target_compile_definitions(sluice_mimalloc_object PRIVATE MI_DEBUG=0 MI_SECURE=0 MI_STATIC_LIB
  $<$<STREQUAL:${SLUICE_SANITIZE},thread>:MI_TSAN=1>)
target_compile_options(sluice_mimalloc_object PRIVATE -w -fno-builtin-malloc
  $<$<STREQUAL:${SLUICE_SANITIZE},thread>:-fsanitize=thread>)
add_library(sluice_mimalloc INTERFACE)
target_include_directories(sluice_mimalloc SYSTEM INTERFACE "${SLUICE_MIMALLOC_SOURCE_DIR}/include")

# CUDA: headers always, nvcc for the kernels; both of 13.0 or later (older headers lack the names of
# newer entry points). A toolkit comes first, then the wheels that tools/setup fetched.
set(cuda_roots "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
if("$ENV{SLUICE_IGNORE_TOOLKIT}")
  set(cuda_roots "")
endif()
file(GLOB cuda_wheels "${SLUICE_DEPS_DIR}/cuda-venv/lib/python3*/site-packages/nvidia/cu13")
list(APPEND cuda_roots ${cuda_wheels})
list(REMOVE_ITEM cuda_roots "")
set(SLUICE_CUDA_INCLUDE_DIR "" CACHE PATH "Folder with cuda.h and cudaTypedefs.h")
set(SLUICE_NVCC "" CACHE FILEPATH "nvcc; none: the library holds no device code")
foreach(root IN LISTS cuda_roots)
  if(NOT EXISTS "${root}/include/cudaTypedefs.h" OR NOT EXISTS "${root}/include/cuda.h")
    continue()
  endif()
  file(STRINGS "${root}/include/cuda.h" cuda_version REGEX "#define CUDA_VERSION [0-9]+")
  string(REGEX REPLACE "[^0-9]" "" cuda_version "${cuda_version}")
  if(cuda_version LESS 13000)
    continue()
  endif()
  if(NOT SLUICE_CUDA_INCLUDE_DIR)
    set(SLUICE_CUDA_INCLUDE_DIR "${root}/include" CACHE PATH "" FORCE)
  endif()
  if(NOT SLUICE_NVCC AND EXISTS "${root}/bin/nvcc")
    set(SLUICE_NVCC "${root}/bin/nvcc" CACHE FILEPATH "" FORCE)
  endif()
endforeach()
if(NOT SLUICE_CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h and cudaTypedefs.h of CUDA 13 not found: run tools/setup, "
          "install the CUDA Toolkit, or set SLUICE_CUDA_INCLUDE_DIR")
endif()
sluice_header_library(sluice_cuda_headers "${SLUICE_CUDA_INCLUDE_DIR}")
message(STATUS "CUDA headers: ${SLUICE_CUDA_INCLUDE_DIR}; nvcc: ${SLUICE_NVCC}")

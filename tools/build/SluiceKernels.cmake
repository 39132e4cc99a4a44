# sluice_kernel_image: the device code of prefetch/kernels/*.cu, one fatbin, as the array
# sluice_kernels_fatbin[] that prefetch/kernels/image.h declares. The image is not compressed
# (drivers before 12.4 can't read what nvcc 13 compresses with zstd) and multiplications and
# additions are not contracted, so that the emulated driver computes the same bits. Without nvcc
# or kernels it is empty.
file(GLOB kernel_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/prefetch/kernels/*.cu")
file(GLOB kernel_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/prefetch/kernels/*.h"
     "${PROJECT_SOURCE_DIR}/prefetch/kernels/*.cuh")
set(generated "${PROJECT_BINARY_DIR}/generated")
find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Device code needs nothing of the host, but nvcc wants a compiler that it knows.
set(kernel_host_compiler "${CMAKE_CXX_COMPILER}")
set(kernel_image_format elf)
if(WIN32)
  find_program(SLUICE_HOST_CXX NAMES g++)
  set(kernel_host_compiler "${SLUICE_HOST_CXX}")
  set(kernel_image_format coff)
endif()

set(kernel_fatbins "")
list(LENGTH kernel_sources kernel_count)
if(kernel_count GREATER 1)
  # One image, one array: a second translation unit would need device linking for nothing.
  message(FATAL_ERROR "prefetch/kernels has ${kernel_count} .cu files: put them behind one")
elseif(kernel_count EQUAL 1 AND SLUICE_NVCC)
  set(arch_flags "")
  foreach(arch IN LISTS SLUICE_CUDA_ARCHITECTURES)
    list(APPEND arch_flags -gencode arch=compute_${arch},code=sm_${arch})
  endforeach()
  list(GET SLUICE_CUDA_ARCHITECTURES 0 lowest)
  list(APPEND arch_flags -gencode arch=compute_${lowest},code=compute_${lowest})
  set(kernel_fatbins "${generated}/kernels.fatbin")
  add_custom_command(OUTPUT "${kernel_fatbins}"
    COMMAND "${SLUICE_NVCC}" -fatbin --no-compress -std=c++17 -O3 -fmad=false
            -ccbin "${kernel_host_compiler}" -I "${PROJECT_SOURCE_DIR}"
            -I "${SLUICE_CUDA_INCLUDE_DIR}"
            ${arch_flags} --threads 2 -o "${kernel_fatbins}" ${kernel_sources}
    DEPENDS ${kernel_sources} ${kernel_headers}
    COMMENT "Device code for sm ${SLUICE_CUDA_ARCHITECTURES}" VERBATIM)
elseif(kernel_count EQUAL 1)
  message(WARNING "no nvcc: the library holds no device code. Run tools/setup, or set SLUICE_NVCC")
endif()

set(kernel_image "${generated}/kernel_image.cpp")
add_custom_command(OUTPUT "${kernel_image}"
  COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/tools/build/embed.py"
          --format ${kernel_image_format} --name sluice_kernels_fatbin
          --output "${kernel_image}" ${kernel_fatbins}
  DEPENDS "${PROJECT_SOURCE_DIR}/tools/build/embed.py" ${kernel_fatbins}
  COMMENT "Kernel image" VERBATIM)
add_library(sluice_kernel_image OBJECT "${kernel_image}")
target_link_libraries(sluice_kernel_image PRIVATE sluice_settings)

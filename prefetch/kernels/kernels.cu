// Launch bodies of the kernels. Their numeric cores are in *_core.h, shared with the host.
#include "prefetch/kernels/cast_core.h"

// By this name the emulated driver knows an image whose kernels it can run.
extern "C" __device__ const unsigned int sluice_kernels_v1 = 1;

extern "C" __global__ void sluice_cast(const void *source, void *target, uint64_t count,
                                       uint32_t source_type, uint32_t target_type) {
  const uint64_t stride = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    sluice_cast_element(source, target, i, source_type, target_type);
}

// The top floor's slice of the C API: thin bodies.
#include "runtime/c_api.h"

#include "prefetch/kernels.h"
#include "prefetch/scatter.h"

using namespace sluice;

extern "C" {

sluice_status sluice_cast(sluice_device *device, uint64_t source, sluice_type source_type,
                          uint64_t target, sluice_type target_type, uint64_t count, void *stream) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    SLUICE_ASSIGN(Kernels * kernels, device->device->part<Kernels>());
    return kernels->cast(source, source_type, target, target_type, count, as_stream(stream));
  });
}

uint64_t sluice_bit_reverse(uint64_t index, uint64_t count) { return bit_reverse(index, count); }

}  // extern "C"

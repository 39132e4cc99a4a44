// Device memory that the caller names by address: checked before work of sluice's own touches it,
// because a wrong address costs the whole context.
#pragma once

#include <memory>

#include "alloc/growable_buffer.h"
#include "runtime/device.h"

namespace sluice {

// Refuses what isn't memory of `device`: the unmapped part of a buffer of sluice; where the driver
// tells what an address is, also the first or the last byte of other memory.
// The buffer of sluice that the range lies in, to be held while work uses it; else nullptr.
// Needs the device's context current. `bytes` is not 0.
// Returns: OK; INVALID_ARGUMENT; DRIVER_ERROR.
Result<std::shared_ptr<GrowableBuffer>> find_device_range(Device &device, uint64_t address,
                                                          uint64_t bytes);

// The same where the buffer is known already.
Status check_mapped(const GrowableBuffer &buffer, uint64_t address, uint64_t bytes);

}  // namespace sluice

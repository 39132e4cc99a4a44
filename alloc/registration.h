// A host range registered with the driver (pinned), charged to the runtime's pinned budget for as
// long as it is.
//
// The memory is always a mapping of our own: cuMemHostAlloc is several times slower, waits for
// running kernels, and its memory can't be a fixed buffer of io_uring on older kernels.
//
// Threads: one owner.
#pragma once

#include <cstddef>

#include "runtime/device.h"

namespace sluice {

class Registration {
 public:
  // All or nothing; LIMIT_REACHED or OUT_OF_PINNED_MEMORY say who refused. Needs the device's
  // context current. For all devices of the driver (PORTABLE).
  static Result<Registration> create(Device &device, std::byte *data, size_t bytes);
  Registration(Registration &&other) noexcept
      : device_(std::exchange(other.device_, nullptr)), data_(other.data_), bytes_(other.bytes_) {}
  Registration &operator=(Registration &&) = delete;
  ~Registration();  // no copy may still use it

 private:
  Registration(Device &device, std::byte *data, size_t bytes)
      : device_(&device), data_(data), bytes_(bytes) {}

  Device *device_;
  std::byte *data_;
  size_t bytes_;
};

}  // namespace sluice

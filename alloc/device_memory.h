// Physical VRAM of one device: handles made under the cap, pooled by size for reuse.
//
// A handle can't be split and mapping costs the same whatever its size, so few large ones are
// made. Pooled handles count under the cap and go before anything is refused.
//
// Threads: any; no lock is held across a driver call.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace sluice {

struct PhysicalHandle {
  CUmemGenericAllocationHandle handle = 0;
  uint64_t bytes = 0;
};

class DeviceMemory final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kMemory;
  static Result<std::unique_ptr<DeviceMemory>> create(Device &device);
  ~DeviceMemory() override;
  Status close() override;

  // Refuses what couldn't fit under the cap though all else were given back; before any is made.
  Status check_possible(uint64_t bytes) const;
  // `bytes` is a multiple of the granularity. Takes a pooled one, or makes one. Where the driver
  // has no piece so large, OUT_OF_DEVICE_MEMORY: smaller ones may do.
  Result<PhysicalHandle> take(uint64_t bytes);
  void put(PhysicalHandle handle) noexcept;      // it is mapped nowhere
  void release(PhysicalHandle handle) noexcept;  // the same, but to the driver
  uint64_t trim() noexcept;
  void trim_to_limit() noexcept;  // while the cap is passed

  Device &device() const noexcept { return device_; }

 private:
  explicit DeviceMemory(Device &device) : device_(device) {}
  bool take_pooled(uint64_t bytes, PhysicalHandle *out) noexcept;
  bool release_one() noexcept;
  Status charge(uint64_t bytes);
  Status no_room(uint64_t bytes) const;
  Result<PhysicalHandle> make(uint64_t bytes);

  Device &device_;
  std::mutex mutex_;
  std::vector<PhysicalHandle> pool_;
  size_t made_ = 0;  // the pool has room for all of them
};

}  // namespace sluice

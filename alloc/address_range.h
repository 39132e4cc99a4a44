// A reserved range of device addresses, and handles mapped into it one after another.
//
// Threads: the owner serialises. Invariant: [0, mapped_bytes) is mapped and accessible, made of
// the whole handles in order; the rest is reserved only.
#pragma once

#include <cuda.h>

#include <vector>

#include "alloc/device_memory.h"

namespace sluice {

class AddressRange {
 public:
  static Result<AddressRange> reserve(Device &device, uint64_t bytes);
  AddressRange(AddressRange &&other) noexcept;
  AddressRange &operator=(AddressRange &&) = delete;
  ~AddressRange();  // unmaps and frees; nothing may still use it

  uint64_t address() const noexcept { return address_; }
  uint64_t reserved_bytes() const noexcept { return reserved_; }
  uint64_t mapped_bytes() const noexcept { return mapped_; }

  // Maps handles of at most kMaxHandleBytes until `bytes` are mapped; all or nothing.
  Status map_up_to(DeviceMemory &memory, uint64_t bytes);
  // The offset to which whole handles let it shrink when `bytes` must stay.
  uint64_t cut_offset(uint64_t bytes) const noexcept;
  // Unmaps what lies past `offset`, a result of cut_offset.
  enum class Afterwards { kPool, kRelease };  // of the handles
  void unmap_from(DeviceMemory &memory, uint64_t offset, Afterwards afterwards) noexcept;

 private:
  AddressRange(Device &device, uint64_t address, uint64_t bytes)
      : device_(&device), address_(address), reserved_(bytes) {}
  Status map_new(DeviceMemory &memory, uint64_t goal, uint64_t *mapped_end);
  Result<PhysicalHandle> take_up_to(DeviceMemory &memory, uint64_t *largest, uint64_t wanted);
  Status grant_access(uint64_t offset, uint64_t bytes);

  Device *device_;
  uint64_t address_ = 0;
  uint64_t reserved_ = 0;
  uint64_t mapped_ = 0;
  std::vector<PhysicalHandle> handles_;
};

}  // namespace sluice

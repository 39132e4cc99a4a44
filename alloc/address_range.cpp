#include "alloc/address_range.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "runtime/limits.h"

namespace sluice {

Result<AddressRange> AddressRange::reserve(Device &device, uint64_t bytes) {
  const uint64_t granularity = device.facts().granularity_bytes;
  const uint64_t rounded = (bytes + granularity - 1) / granularity * granularity;
  CUdeviceptr address = 0;
  SLUICE_CUDA(device.driver(), cuMemAddressReserve,
              fmt::format("{} of device addresses", format_size(rounded)), &address, rounded, 0, 0,
              0);
  return AddressRange(device, address, rounded);
}

AddressRange::AddressRange(AddressRange &&other) noexcept
    : device_(other.device_),
      address_(std::exchange(other.address_, 0)),
      reserved_(std::exchange(other.reserved_, 0)),
      mapped_(std::exchange(other.mapped_, 0)),
      handles_(std::move(other.handles_)) {}

AddressRange::~AddressRange() {
  if (address_ == 0) return;
  if (mapped_ != 0)
    if (DeviceMemory *memory = device_->existing_part<DeviceMemory>())
      unmap_from(*memory, 0, Afterwards::kPool);
  give_back(*device_, "cuMemAddressFree",
            [&] { return device_->cuda().cuMemAddressFree(address_, reserved_); });
}

// Another answer than memory is given a bounded number of tries: "not ready" comes from Windows
// and WSL2 right after an unmapping.
Status AddressRange::grant_access(uint64_t offset, uint64_t bytes) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_->handle();
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult result = CUDA_SUCCESS;
  for (uint32_t attempt = 0; attempt < kAccessAttempts; ++attempt) {
    result = device_->cuda().cuMemSetAccess(address_ + offset, bytes, &access, 1);
    device_->counters().access_grants.add();
    if (result != CUDA_ERROR_NOT_READY) break;
    device_->counters().access_retries.add();
    std::this_thread::sleep_for(std::chrono::microseconds(50u << attempt));
  }
  if (result == CUDA_SUCCESS) return {};
  return device_->driver().failure("cuMemSetAccess", result,
                                   fmt::format("access to {}", format_size(bytes)));
}

// Where the driver has no room for a large handle in one piece, several smaller ones may fit.
Result<PhysicalHandle> AddressRange::take_up_to(DeviceMemory &memory, uint64_t *largest,
                                                uint64_t wanted) {
  const uint64_t granularity = device_->facts().granularity_bytes;
  for (;;) {
    const uint64_t bytes = std::min(wanted, *largest);
    auto handle = memory.take(bytes);
    if (handle.ok() || handle.status().code() != SLUICE_OUT_OF_DEVICE_MEMORY ||
        handle.status().record().domain != SLUICE_DOMAIN_CUDA || bytes <= granularity)
      return handle;
    *largest = std::max(bytes / 2 / granularity * granularity, granularity);
  }
}

Status AddressRange::map_new(DeviceMemory &memory, uint64_t goal, uint64_t *mapped_end) {
  const uint64_t granularity = device_->facts().granularity_bytes;
  uint64_t largest = kMaxHandleBytes / granularity * granularity;
  while (*mapped_end < goal) {
    handles_.reserve(handles_.size() + 1);
    SLUICE_ASSIGN(const PhysicalHandle handle, take_up_to(memory, &largest, goal - *mapped_end));
    const CUresult result =
        device_->cuda().cuMemMap(address_ + *mapped_end, handle.bytes, 0, handle.handle, 0);
    if (result != CUDA_SUCCESS) {
      memory.put(handle);
      return device_->driver().failure("cuMemMap", result);
    }
    device_->counters().maps.add();
    handles_.push_back(handle);
    *mapped_end += handle.bytes;
  }
  return grant_access(mapped_, *mapped_end - mapped_);
}

Status AddressRange::map_up_to(DeviceMemory &memory, uint64_t bytes) {
  if (bytes <= mapped_) return {};
  const uint64_t granularity = device_->facts().granularity_bytes;
  const uint64_t goal = (bytes + granularity - 1) / granularity * granularity;
  SLUICE_TRY(memory.check_possible(goal - mapped_));
  const uint64_t before = mapped_;
  uint64_t end = mapped_;
  Status status = map_new(memory, goal, &end);
  mapped_ = end;
  if (status.ok()) return status;
  // What the device couldn't give in full is of no use here, but may be to others.
  unmap_from(memory, before, Afterwards::kRelease);
  return std::move(status).with_context(fmt::format("mapping {}", format_size(goal - before)));
}

uint64_t AddressRange::cut_offset(uint64_t bytes) const noexcept {
  uint64_t offset = 0;
  for (const PhysicalHandle &handle : handles_) {
    if (offset >= bytes) break;
    offset += handle.bytes;
  }
  return offset;
}

void AddressRange::unmap_from(DeviceMemory &memory, uint64_t offset,
                              Afterwards afterwards) noexcept {
  if (offset >= mapped_) return;
  const bool unmapped = give_back(*device_, "cuMemUnmap", [&] {
    return device_->cuda().cuMemUnmap(address_ + offset, mapped_ - offset);
  });
  device_->counters().unmaps.add();
  while (mapped_ > offset) {
    const PhysicalHandle handle = handles_.back();
    handles_.pop_back();
    mapped_ -= handle.bytes;
    // A handle that may still be mapped is never handed to someone else.
    if (!unmapped) continue;
    afterwards == Afterwards::kPool ? memory.put(handle) : memory.release(handle);
  }
}

}  // namespace sluice

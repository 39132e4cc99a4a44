#include "alloc/device_memory.h"

#include <algorithm>

namespace sluice {

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(Device &device) {
  return std::unique_ptr<DeviceMemory>(new DeviceMemory(device));
}

DeviceMemory::~DeviceMemory() { trim(); }

Status DeviceMemory::close() {
  device_.retirement().drain();
  trim();
  return {};
}

bool DeviceMemory::take_pooled(uint64_t bytes, PhysicalHandle *out) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(pool_.rbegin(), pool_.rend(),
                                  [&](const PhysicalHandle &h) { return h.bytes == bytes; });
  if (found == pool_.rend()) return false;
  *out = *found;
  pool_.erase(std::next(found).base());
  device_.counters().vram_pooled_bytes.subtract(bytes);
  return true;
}

void DeviceMemory::release(PhysicalHandle handle) noexcept {
  give_back(device_, "cuMemRelease", [&] { return device_.cuda().cuMemRelease(handle.handle); });
  device_.counters().handles_released.add();
  device_.vram().release(handle.bytes);
  const std::lock_guard lock(mutex_);
  --made_;
}

bool DeviceMemory::release_one() noexcept {
  PhysicalHandle handle;
  {
    const std::lock_guard lock(mutex_);
    if (pool_.empty()) return false;
    handle = pool_.back();
    pool_.pop_back();
  }
  device_.counters().vram_pooled_bytes.subtract(handle.bytes);
  release(handle);
  return true;
}

uint64_t DeviceMemory::trim() noexcept {
  const uint64_t before = device_.vram().used();
  while (release_one()) {
  }
  const uint64_t after = device_.vram().used();
  return before > after ? before - after : 0;
}

void DeviceMemory::trim_to_limit() noexcept {
  while (device_.vram().used() > device_.vram().limit() && release_one()) {
  }
}

// What there is too little of: the limit that was asked for, what the headroom leaves, or the
// device's own memory.
Status DeviceMemory::no_room(uint64_t bytes) const {
  const uint64_t limit = device_.vram().limit();
  const uint64_t total = device_.facts().total_bytes;
  const uint64_t headroom = device_.runtime().options().vram_headroom;
  const std::string need =
      fmt::format("GPU {} ({}): {} more, with {} in use, would pass", device_.ordinal(),
                  device_.facts().name, format_size(bytes), format_size(device_.vram().used()));
  if (limit < device_.vram_beside_headroom())
    return error(SLUICE_LIMIT_REACHED, "{} the VRAM limit of {}; raise --vram-limit or free memory",
                 need, format_size(limit));
  if (headroom != 0)
    return error(SLUICE_LIMIT_REACHED,
                 "{} the {} that --vram-headroom {} leaves; lower it or free memory", need,
                 format_size(limit), format_size(headroom));
  return error(SLUICE_OUT_OF_DEVICE_MEMORY,
               "{} all of the device's {}; free memory, or load less at a time", need,
               format_size(total));
}

Status DeviceMemory::check_possible(uint64_t bytes) const {
  return bytes > device_.vram().limit() ? no_room(bytes) : Status();
}

// Room under the cap: pooled handles go first, then what is retired is waited for.
Status DeviceMemory::charge(uint64_t bytes) {
  Budget &vram = device_.vram();
  while (!vram.try_charge(bytes)) {
    if (release_one() || device_.retirement().wait_for_oldest()) continue;
    return no_room(bytes);
  }
  return {};
}

Result<PhysicalHandle> DeviceMemory::make(uint64_t bytes) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = device_.handle();
  {
    const std::lock_guard lock(mutex_);
    pool_.reserve(made_ + 1);  // so that putting it back can't fail
    ++made_;
  }
  PhysicalHandle handle{0, bytes};
  CUresult result = CUDA_SUCCESS;
  do {
    result = device_.cuda().cuMemCreate(&handle.handle, bytes, &prop, 0);
  } while (result == CUDA_ERROR_OUT_OF_MEMORY &&
           (release_one() || device_.retirement().wait_for_oldest()));
  if (result == CUDA_SUCCESS) {
    device_.counters().handles_created.add();
    return handle;
  }
  {
    const std::lock_guard lock(mutex_);
    --made_;
  }
  return device_.driver().failure(
      "cuMemCreate", result,
      fmt::format("GPU {}: {} of device memory", device_.ordinal(), format_size(bytes)));
}

Result<PhysicalHandle> DeviceMemory::take(uint64_t bytes) {
  device_.retirement().poll();
  PhysicalHandle handle;
  if (take_pooled(bytes, &handle)) {
    device_.counters().handles_reused.add();
    return handle;
  }
  SLUICE_TRY(charge(bytes));
  auto made = [&]() -> Result<PhysicalHandle> {
    try {
      return make(bytes);
    } catch (const std::bad_alloc &) {
      return Status::out_of_host_memory();
    }
  }();
  if (made.ok())
    device_.vram().note_peak();
  else
    device_.vram().release(bytes);
  return made;
}

void DeviceMemory::put(PhysicalHandle handle) noexcept {
  const uint64_t limit = device_.vram().limit();
  if (device_.vram().used() > limit) {  // the cap was lowered meanwhile
    release(handle);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    pool_.push_back(handle);
  }
  device_.counters().vram_pooled_bytes.add(handle.bytes);
}

}  // namespace sluice

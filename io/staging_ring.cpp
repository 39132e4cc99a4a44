#include "io/staging_ring.h"

#include <algorithm>

#include "runtime/limits.h"

namespace sluice {
namespace {

struct RingSize {
  uint64_t slot_bytes;
  uint64_t slots;
  uint64_t bytes() const { return slot_bytes * slots; }
};

// A larger ring would no longer fit the processor's cache, and takes time to make.
uint64_t default_bytes(uint64_t slot_bytes, uint32_t workers) {
  return std::min(slot_bytes * std::max(kSlotsPerWorker * workers, kMinSlots), kMaxRingBytes);
}

RingSize wanted_size(const Options &options, uint32_t workers) {
  const uint64_t by_default = workers >= kManyThreads ? kManyThreadsSlotBytes : kDefaultSlotBytes;
  const uint64_t wanted_slot = options.slot ? options.slot : by_default;
  const uint64_t ring = options.ring ? options.ring : default_bytes(wanted_slot, workers);
  uint64_t slot = wanted_slot;
  // A small ring gets small slots, so that reading and copying still overlap.
  while (slot > kMinSlotBytes && !options.slot && ring / slot < 4) slot /= 2;
  slot = std::max(slot / kDirectAlignment * kDirectAlignment, kMinSlotBytes);
  return {slot, std::max<uint64_t>(ring / slot, kMinSlots)};
}

// The next size to try when one was refused: fewer slots, then smaller ones.
bool shrink(RingSize &size) {
  if (size.slots > kMinSlots) {
    size.slots = std::max<uint64_t>(size.slots / 2, kMinSlots);
    return true;
  }
  if (size.slot_bytes <= kMinSlotBytes) return false;
  size.slot_bytes =
      std::max(size.slot_bytes / 2 / kDirectAlignment * kDirectAlignment, kMinSlotBytes);
  return true;
}

struct PinnedMemory {
  HostMapping mapping;
  std::optional<Registration> registration;
};

Result<PinnedMemory> make_memory(Device &device, uint64_t bytes, Status *refusal) {
  constexpr size_t kHugePage = 2 * kMiB;
  SLUICE_ASSIGN(HostMapping mapping, HostMapping::create(device.runtime(), bytes, kHugePage));
  auto registration = Registration::create(device, mapping.data(), bytes);
  if (registration.ok()) return PinnedMemory{std::move(mapping), registration.take()};
  *refusal = registration.take_status();
  return PinnedMemory{std::move(mapping), std::nullopt};
}

// Whatever the driver says against pinning, reading goes on; not on a broken context.
bool is_refusal(const Status &status) {
  return status.code() != SLUICE_DEVICE_LOST && status.code() != SLUICE_OUT_OF_HOST_MEMORY;
}

}  // namespace

StagingRing::StagingRing(Device &device, HostMapping mapping,
                         std::optional<Registration> registration, uint64_t slot_bytes)
    : device_(device),
      mapping_(std::move(mapping)),
      registration_(std::move(registration)),
      slot_bytes_(slot_bytes) {}

Status StagingRing::make_slots() {
  const size_t count = mapping_.size_bytes() / slot_bytes_;
  slots_.resize(count);
  free_.reserve(count);
  pending_.reserve(count);
  for (size_t i = count; i-- > 0;) {
    slots_[i].data = mapping_.data() + i * slot_bytes_;
    SLUICE_ASSIGN(slots_[i].event, device_.events().take());
    free_.push_back(&slots_[i]);
  }
  return {};
}

Result<std::unique_ptr<StagingRing>> StagingRing::create(Device &device, uint32_t workers) {
  RingSize size = wanted_size(device.runtime().options(), workers);
  const uint64_t wanted = size.bytes();
  std::string why;
  if (const uint64_t room = device.runtime().pinned().room(); size.bytes() > room) {
    why = fmt::format("the pinned limit of {} ({}) leaves {}",
                      format_size(device.runtime().pinned().limit()),
                      device.runtime().pinned_reason(), format_size(room));
    while (size.bytes() > room && shrink(size)) {
    }
  }
  for (;;) {
    Status refusal;
    SLUICE_ASSIGN(PinnedMemory memory, make_memory(device, size.bytes(), &refusal));
    if (!refusal.ok() && !is_refusal(refusal)) return refusal;
    if (!refusal.ok()) why = refusal.record().message;
    if (!refusal.ok() && shrink(size)) continue;
    if (!refusal.ok())
      device.log().write(SLUICE_LOG_WARNING, "ring",
                         "nothing can be pinned, reads go through "
                         "pageable memory and are slower: {}",
                         refusal.record().message);
    if (size.bytes() < wanted) {
      device.counters().ring_shrinks.add();
      device.log().write(SLUICE_LOG_WARNING, "ring", "the staging ring has {} in place of {}: {}",
                         format_size(size.bytes()), format_size(wanted), why);
    }
    std::unique_ptr<StagingRing> ring(new StagingRing(
        device, std::move(memory.mapping), std::move(memory.registration), size.slot_bytes));
    SLUICE_TRY(ring->make_slots());
    return ring;
  }
}

Slot *StagingRing::take_oldest() noexcept {
  const std::lock_guard lock(mutex_);
  if (pending_.empty()) return nullptr;
  Slot *slot = pending_.front();
  pending_.erase(pending_.begin());
  return slot;
}

void StagingRing::put_back_oldest(Slot *slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    pending_.insert(pending_.begin(), slot);
  }
  changed_.notify_one();
}

// The oldest pending slot comes first, if its copies are done: it is still in the processor's
// cache, and the ring uses no more slots than it needs.
Result<Slot *> StagingRing::take_passed() {
  Slot *oldest = take_oldest();
  if (!oldest) return oldest;
  auto passed = oldest->event.passed();
  if (passed.ok() && passed.value()) return oldest;
  put_back_oldest(oldest);
  if (!passed.ok()) return passed.take_status();
  return static_cast<Slot *>(nullptr);
}

Result<Slot *> StagingRing::wait_for(Slot *oldest) {
  device_.counters().slot_waits.add();
  Status status = oldest->event.wait_on_host();
  if (status.ok()) return oldest;
  put_back_oldest(oldest);
  return status;
}

Result<Slot *> StagingRing::acquire(bool wait, size_t most_pending) {
  SLUICE_ASSIGN(Slot * passed, take_passed());
  if (passed) return passed;
  Slot *oldest = nullptr;
  {
    std::unique_lock lock(mutex_);
    while (free_.empty() && wait && pending_.empty()) changed_.wait(lock);
    if (!free_.empty() && (pending_.size() < most_pending || !wait)) {
      Slot *slot = free_.back();
      free_.pop_back();
      return slot;
    }
    if (!wait) return static_cast<Slot *>(nullptr);
    oldest = pending_.front();
    pending_.erase(pending_.begin());
  }
  return wait_for(oldest);
}

void StagingRing::release_pending(Slot *slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    pending_.push_back(slot);
  }
  changed_.notify_one();
}

void StagingRing::release_free(Slot *slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }
  changed_.notify_one();
}

}  // namespace sluice

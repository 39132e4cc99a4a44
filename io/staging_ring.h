// The short ring of slots between files and the GPU (R10): one mapping, one registration with the
// driver, shared by all streams and workers.
//
// A slot is free, with a reader, or pending: copies from it are queued, and it is free again when
// their event has passed. When no other is free, the oldest pending one is waited for.
//
// Threads: any. Invariant: every slot is in exactly one of the three states.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "alloc/host_mapping.h"
#include "alloc/registration.h"

namespace sluice {

struct Slot {
  std::byte *data = nullptr;
  Event event;
};

class StagingRing {
 public:
  // Takes the options' size, or what `workers` need; smaller where the pinned limit or the driver
  // refuses it; where nothing may be pinned, pageable slots. Needs the device's context current.
  static Result<std::unique_ptr<StagingRing>> create(Device &device, uint32_t workers);

  uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  uint32_t slot_count() const noexcept { return static_cast<uint32_t>(slots_.size()); }
  std::span<std::byte> memory() const noexcept { return {mapping_.data(), mapping_.size_bytes()}; }

  // A slot for a reader. Without `wait` nullptr when none is free at once. With `most_pending`
  // pending ones it waits for the oldest though others are free: data that is copied on while it
  // is in the processor's cache passes through memory once less.
  Result<Slot *> acquire(bool wait, size_t most_pending);
  // After its event was recorded behind the copies that read it.
  void release_pending(Slot *slot) noexcept;
  void release_free(Slot *slot) noexcept;

 private:
  StagingRing(Device &device, HostMapping mapping, std::optional<Registration> registration,
              uint64_t slot_bytes);
  Status make_slots();
  Slot *take_oldest() noexcept;
  void put_back_oldest(Slot *slot) noexcept;
  Result<Slot *> take_passed();
  Result<Slot *> wait_for(Slot *oldest);

  Device &device_;
  HostMapping mapping_;
  std::optional<Registration> registration_;
  const uint64_t slot_bytes_;
  std::vector<Slot> slots_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot *> free_;
  std::vector<Slot *> pending_;  // oldest first
};

}  // namespace sluice

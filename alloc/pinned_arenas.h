// Small pinned allocations (R9): mimalloc inside arenas that are registered with the driver.
//
// mimalloc 2.0.9 can't give an arena up: its memory stays in one process-wide set until exit. A
// device leases arenas from the set, registers them, and unregisters them when it closes; the
// next device takes them over. Allocations are kept in a table, so that what was not allocated
// here, or is freed twice, is refused.
//
// Threads: any. One thread owns the heaps (arena_owner.h); freeing works from any thread.
#pragma once

#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "alloc/registration.h"

namespace sluice {

struct Arena;  // of the process-wide set

class PinnedArenas final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kArenas;
  static Result<std::unique_ptr<PinnedArenas>> create(Device &device);
  ~PinnedArenas() override;
  Status close() override;

  Result<void *> allocate(size_t bytes, size_t alignment);
  Status free(void *memory);
  // Whether the whole range is pinned memory of these arenas.
  bool contains(const void *memory, size_t bytes);

 private:
  struct Lease {
    Arena *arena;
    Registration registration;
  };

  explicit PinnedArenas(Device &device) : device_(device) {}
  Result<void *> allocate_from(size_t first_lease, size_t bytes, size_t alignment, size_t *leases);
  Status lease_one(size_t known_leases);

  Device &device_;
  std::mutex mutex_;        // leases_ and live_
  std::mutex lease_mutex_;  // one thread at a time adds an arena
  std::vector<Lease> leases_;
  std::unordered_map<void *, size_t> live_;
};

}  // namespace sluice

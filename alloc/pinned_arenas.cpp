#include "alloc/pinned_arenas.h"

#include <mimalloc.h>

#include <algorithm>
#include <memory>

#include "alloc/arena_owner.h"
#include "alloc/host_mapping.h"
#include "runtime/limits.h"

namespace sluice {

struct Arena {
  std::byte *data = nullptr;
  mi_arena_id_t id = 0;
};

namespace {

// Arenas that no device leases. Leaked: mimalloc keeps using their memory until exit.
struct ArenaSet {
  std::mutex mutex;
  std::vector<Arena *> idle;
  uint32_t made = 0;
};

ArenaSet &arena_set() {
  static auto *set = new ArenaSet;
  return *set;
}

// The heaps of this thread, one an arena. A heap outlives the leases of its arena.
Result<Arena *> make_arena(Runtime &runtime) {
  SLUICE_ASSIGN(HostMapping mapping, HostMapping::create(runtime, kArenaBytes, kArenaBytes));
  auto arena = std::make_unique<Arena>();
  arena->data = mapping.data();
  constexpr bool kCommitted = true, kLarge = true, kZero = true, kExclusive = true;
  constexpr int kNoNode = -1;
  if (!mi_manage_os_memory_ex(mapping.data(), kArenaBytes, kCommitted, kLarge, kZero, kNoNode,
                              kExclusive, &arena->id))
    return error(SLUICE_LIMIT_REACHED, "no further pinned arena can be managed in this process");
  mapping.leak();
  return arena.release();
}

Result<Arena *> take_arena(Runtime &runtime) {
  ArenaSet &set = arena_set();
  const std::lock_guard lock(set.mutex);
  if (!set.idle.empty()) {
    Arena *arena = set.idle.back();
    set.idle.pop_back();
    return arena;
  }
  if (set.made == kMaxArenas)
    return error(SLUICE_LIMIT_REACHED,
                 "small pinned allocations have used up all {} arenas of {} of this process",
                 kMaxArenas, format_size(kArenaBytes));
  set.idle.reserve(set.made + 1);  // giving it back can't fail
  SLUICE_ASSIGN(Arena * arena, make_arena(runtime));
  ++set.made;
  return arena;
}

void return_arena(Arena *arena) noexcept {
  ArenaSet &set = arena_set();
  const std::lock_guard lock(set.mutex);
  set.idle.push_back(arena);
}

}  // namespace

Result<std::unique_ptr<PinnedArenas>> PinnedArenas::create(Device &device) {
  return std::unique_ptr<PinnedArenas>(new PinnedArenas(device));
}

PinnedArenas::~PinnedArenas() { static_cast<void>(close()); }

Status PinnedArenas::close() {
  const std::lock_guard lock(mutex_);
  while (!leases_.empty()) {
    Arena *arena = leases_.back().arena;
    leases_.pop_back();  // unregisters
    return_arena(arena);
  }
  return {};
}

// Tries every lease from `first_lease` on; says how many there were. nullptr: all are full.
Result<void *> PinnedArenas::allocate_from(size_t first_lease, size_t bytes, size_t alignment,
                                           size_t *leases) {
  const std::lock_guard lock(mutex_);
  *leases = leases_.size();
  for (size_t i = first_lease; i < leases_.size(); ++i) {
    SLUICE_ASSIGN(void *memory,
                  ArenaOwner::instance().allocate(leases_[i].arena->id, bytes, alignment));
    if (!memory) continue;
    try {
      live_.emplace(memory, bytes);
    } catch (...) {
      mi_free(memory);
      throw;
    }
    return memory;
  }
  return static_cast<void *>(nullptr);
}

Status PinnedArenas::lease_one(size_t known_leases) {
  const std::lock_guard lease_lock(lease_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (leases_.size() > known_leases) return {};  // another thread was faster
    leases_.reserve(leases_.size() + 1);
  }
  SLUICE_ASSIGN(Arena * arena, take_arena(device_.runtime()));
  auto registration = Registration::create(device_, arena->data, kArenaBytes);
  if (!registration.ok()) {
    return_arena(arena);
    return registration.take_status();
  }
  const std::lock_guard lock(mutex_);
  leases_.push_back({arena, registration.take()});
  return {};
}

Result<void *> PinnedArenas::allocate(size_t bytes, size_t alignment) {
  size_t tried = 0;
  for (;;) {
    size_t leases = 0;
    SLUICE_ASSIGN(void *memory, allocate_from(tried, bytes, alignment, &leases));
    if (memory) return memory;
    tried = leases;
    SLUICE_TRY(lease_one(leases));
  }
}

Status PinnedArenas::free(void *memory) {
  {
    const std::lock_guard lock(mutex_);
    if (live_.erase(memory) == 0)
      return error(SLUICE_INVALID_ARGUMENT,
                   "{} was not allocated by sluice_pinned_alloc of GPU {}, or is free already",
                   memory, device_.ordinal());
  }
  mi_free(memory);
  return {};
}

bool PinnedArenas::contains(const void *memory, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto *start = static_cast<const std::byte *>(memory);
  return std::any_of(leases_.begin(), leases_.end(), [&](const Lease &lease) {
    const std::byte *data = lease.arena->data;
    return start >= data && bytes <= kArenaBytes &&
           start - data <= static_cast<ptrdiff_t>(kArenaBytes - bytes);
  });
}

}  // namespace sluice

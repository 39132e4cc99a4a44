#include "alloc/arena_owner.h"

#include "runtime/limits.h"
#include "runtime/os.h"

namespace sluice {

ArenaOwner &ArenaOwner::instance() {
  static auto *owner = new ArenaOwner;  // leaked: its thread runs until the process ends
  return *owner;
}

Status ArenaOwner::start() {
  if (started_) return {};
  heaps_.reserve(kMaxArenas);
  // Where memory isn't overcommitted (Windows), a thread's first segments would be left
  // uncommitted, and arenas like ours, of memory that is, be passed over.
  mi_option_set(mi_option_eager_commit_delay, 0);
  uint64_t thread = 0;
  const int result = os().thread_start(&ArenaOwner::thread_body, this, &thread);
  if (result != 0)
    return system_error("pthread_create", -result, "the thread of the pinned arenas");
  os().thread_detach(thread);
  started_ = true;
  return {};
}

Result<void *> ArenaOwner::allocate(mi_arena_id_t arena, size_t bytes, size_t alignment) {
  const std::lock_guard caller(callers_);
  SLUICE_TRY(start());
  Request request{arena, bytes, alignment};
  std::unique_lock lock(mutex_);
  request_ = &request;
  changed_.notify_all();
  changed_.wait(lock, [&] { return request.done; });
  return request.result;
}

void ArenaOwner::thread_body(void *self) { static_cast<ArenaOwner *>(self)->serve(); }

void ArenaOwner::serve() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return request_ != nullptr; });
    Request &request = *std::exchange(request_, nullptr);
    if (mi_heap_t *heap = heap_of(request.arena))
      request.result = mi_heap_malloc_aligned(heap, request.bytes, request.alignment);
    request.done = true;
    changed_.notify_all();
  }
}

mi_heap_t *ArenaOwner::heap_of(mi_arena_id_t arena) noexcept {
  for (const Heap &each : heaps_)
    if (each.arena == arena) return each.heap;
  mi_heap_t *heap = mi_heap_new_in_arena(arena);
  if (heap) heaps_.push_back({arena, heap});
  return heap;
}

}  // namespace sluice

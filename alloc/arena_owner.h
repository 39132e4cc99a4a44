// The one thread that owns every mimalloc heap of the pinned arenas.
//
// A heap of mimalloc belongs to a thread, and the first allocation of a heap takes a whole segment,
// which is all of an arena: with a heap for each caller's thread, each would hold an arena of its
// own. So one thread allocates for all; freeing works from any thread.
//
// Threads: any, one request at a time. The thread starts with the first request and lives until
// the process ends.
#pragma once

#include <mimalloc.h>

#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/status.h"

namespace sluice {

class ArenaOwner {
 public:
  static ArenaOwner &instance();

  // nullptr when the arena is full.
  Result<void *> allocate(mi_arena_id_t arena, size_t bytes, size_t alignment);

 private:
  struct Request {
    mi_arena_id_t arena;
    size_t bytes;
    size_t alignment;
    void *result = nullptr;
    bool done = false;
  };
  struct Heap {
    mi_arena_id_t arena;
    mi_heap_t *heap;
  };

  Status start();
  static void thread_body(void *self);
  void serve() noexcept;
  mi_heap_t *heap_of(mi_arena_id_t arena) noexcept;

  std::mutex callers_;  // held by the caller whose request is being served
  std::mutex mutex_;
  std::condition_variable changed_;
  Request *request_ = nullptr;
  bool started_ = false;
  std::vector<Heap> heaps_;  // the thread's own; room for all is made ahead
};

}  // namespace sluice

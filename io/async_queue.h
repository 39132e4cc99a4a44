// Reads that the system performs by itself, owned by one thread: through one io_uring on Linux,
// one completion port on Windows. Files and the staging memory are made known to the system once
// where it allows that, each degrading on its own.
//
// Invariant: an operation that was submitted stays with the system until its completion has been
// seen; one that the system never took is handed back as not performed.
#pragma once

#include <memory>
#include <span>

#include "io/read_operation.h"

namespace sluice {

class AsyncQueue {
 public:
  struct Completion {
    ReadOperation *operation = nullptr;
    int result = 0;
    bool performed = true;  // false: the queue broke before the system took it
  };

  // `fixed_memory` becomes a registered buffer, if it may. `depth` bounds what is in flight.
  static Result<std::unique_ptr<AsyncQueue>> create(Runtime &runtime,
                                                    std::span<std::byte> fixed_memory,
                                                    uint32_t depth);
  virtual ~AsyncQueue() = default;
  AsyncQueue(const AsyncQueue &) = delete;
  AsyncQueue &operator=(const AsyncQueue &) = delete;

  static const char *name() noexcept;  // for reports: "io_uring"
  bool fixed_buffers() const noexcept { return fixed_buffers_; }
  bool fixed_files() const noexcept { return fixed_files_; }
  bool broken() const noexcept { return broken_; }

  // Queues the operation's next read; at most `depth` are in flight. Not on a broken queue.
  virtual void submit(ReadOperation &operation) noexcept = 0;
  // Hands what was queued to the system, without waiting.
  virtual void flush() noexcept = 0;
  // A completion that is there already.
  virtual bool poll_one(Completion *out) noexcept = 0;
  // The next completion; something is in flight. One without an operation: none came for a while,
  // and the caller may have more to begin.
  virtual Completion wait_one() noexcept = 0;
  // Lets go of the files that the queue holds; nothing is in flight.
  virtual void forget_files() noexcept = 0;

 protected:
  AsyncQueue() = default;
  bool fixed_buffers_ = false;
  bool fixed_files_ = false;
  bool broken_ = false;
};

// Tries such queues, registered buffers and files on this machine; for reports.
struct AsyncQueueFacts {
  bool works = false;
  bool fixed_buffers = false;
  bool fixed_files = false;
  std::string reason;
  std::string remedy;
};
AsyncQueueFacts probe_async_queue(Runtime &runtime);

}  // namespace sluice

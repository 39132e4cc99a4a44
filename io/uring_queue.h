// Reads through one io_uring, owned by one thread: registered buffers and files where the system
// allows them, each degrading on its own.
//
// Invariant: an operation that was submitted stays with the kernel until its completion has been
// seen; one that the kernel never took is handed back as not performed.
#pragma once

#include <liburing.h>

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "io/read_operation.h"

namespace sluice {

class UringQueue {
 public:
  struct Completion {
    ReadOperation *operation = nullptr;
    int result = 0;
    bool performed = true;  // false: the ring broke before the kernel took it
  };

  // `fixed_memory` becomes a registered buffer, if it may. `depth` bounds what is in flight.
  static Result<std::unique_ptr<UringQueue>> create(Runtime &runtime,
                                                    std::span<std::byte> fixed_memory,
                                                    uint32_t depth);
  ~UringQueue();
  UringQueue(const UringQueue &) = delete;
  UringQueue &operator=(const UringQueue &) = delete;

  bool fixed_buffers() const noexcept { return fixed_buffers_; }
  bool fixed_files() const noexcept { return fixed_files_; }
  bool broken() const noexcept { return broken_; }

  // Queues the operation's next read; at most `depth` are in flight. Not on a broken ring.
  void submit(ReadOperation &operation) noexcept;
  // Hands what was queued to the kernel, without waiting.
  void flush() noexcept;
  // A completion that is there already.
  bool poll_one(Completion *out) noexcept;
  // The next completion; something is in flight.
  Completion wait_one() noexcept;
  // Lets go of the files that the ring holds; nothing is in flight.
  void forget_files() noexcept;

 private:
  static constexpr unsigned kFileSlots = 32;
  struct FileSlot {
    uint64_t file_id = 0;  // 0: none
    bool direct = false;
  };

  explicit UringQueue(Runtime &runtime) : runtime_(runtime) {}
  void register_what_may(std::span<std::byte> fixed_memory) noexcept;
  int fixed_file(ReadOperation &operation) noexcept;
  Status try_out() noexcept;
  int enter_ring(unsigned wait_for) noexcept;
  void enter(unsigned wait_for) noexcept;

  Runtime &runtime_;
  io_uring ring_{};
  bool made_ = false;
  bool fixed_buffers_ = false;
  bool fixed_files_ = false;
  bool broken_ = false;
  std::array<FileSlot, kFileSlots> files_{};
  unsigned next_file_slot_ = 0;
  std::vector<ReadOperation *> not_taken_;  // in the order of submission; room for `depth`
};

// Tries rings, registered buffers and files on this machine; for reports.
struct UringFacts {
  bool works = false;
  bool fixed_buffers = false;
  bool fixed_files = false;
  std::string reason;
  std::string remedy;
};
UringFacts probe_uring(Runtime &runtime);

}  // namespace sluice

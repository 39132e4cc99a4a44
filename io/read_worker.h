// One reading thread: its stream, its io_uring (if any) and what it has in flight.
//
// Threads: everything but the constructor, start and join runs on the worker's own thread.
#pragma once

#include <memory>
#include <vector>

#include "io/reader.h"

namespace sluice {

class ReadWorker {
 public:
  // Needs the device's context current.
  static Result<std::unique_ptr<ReadWorker>> create(Reader &reader, uint32_t index,
                                                    std::unique_ptr<AsyncQueue> queue,
                                                    uint32_t depth);
  ~ReadWorker();  // joined before

  Status start();
  void join() noexcept;
  CUstream stream() const noexcept { return stream_; }

 private:
  struct InFlight {
    ReadOperation operation;
    Reader::Taken taken;
    Slot *slot = nullptr;
  };

  ReadWorker(Reader &reader, uint32_t index, std::unique_ptr<AsyncQueue> queue, uint32_t depth)
      : reader_(reader),
        device_(reader.device()),
        index_(index),
        queue_(std::move(queue)),
        in_flight_(depth) {}
  static void thread_body(void *self);
  void run() noexcept;
  Status prepare_thread() noexcept;
  bool begin_next(bool wait) noexcept;
  bool wait_and_begin() noexcept;
  bool begin_at_once() noexcept;
  void begin(const Reader::Taken &taken, Slot *slot) noexcept;
  void begin_reading(InFlight &entry) noexcept;
  void complete(const AsyncQueue::Completion &completion) noexcept;
  void reap() noexcept;
  void leave_uncached(const InFlight &entry) noexcept;
  void perform(InFlight &entry) noexcept;
  void end(InFlight &entry, bool read_ok) noexcept;
  void pass_on(InFlight &entry, Reader::Outcome outcome) noexcept;
  Reader::Outcome deliver(InFlight &entry) noexcept;
  Status queue_copies(const InFlight &entry, const std::byte *buffer, bool *queued) noexcept;
  Status await_start(ReadJob &job) noexcept;
  void count(const InFlight &entry) noexcept;
  void release_slot(InFlight &entry, bool copies_queued, Status *status) noexcept;
  InFlight *free_entry() noexcept;
  uint64_t bit() const noexcept { return uint64_t{1} << index_; }

  Reader &reader_;
  Device &device_;
  const uint32_t index_;
  std::unique_ptr<AsyncQueue> queue_;
  std::vector<InFlight> in_flight_;
  uint32_t busy_ = 0;
  CUstream stream_ = nullptr;
  uint64_t thread_ = 0;
  bool started_ = false;
  Status broken_;  // the thread could not set itself up: its pieces fail with this
};

}  // namespace sluice

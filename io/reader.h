// The readers of one device: worker threads that take pieces of submitted jobs, read them into
// slots of the ring and queue the copies on streams of their own.
//
// Threads: jobs are submitted and waited for from any thread. One mutex guards the queue of jobs;
// it is never held across a read, a copy or a wait. The workers allocate nothing while they read.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/async_queue.h"
#include "io/read_job.h"
#include "io/staging_ring.h"

namespace sluice {

class ReadWorker;

// How the last submitted read goes, for reports.
struct PathTaken {
  bool uring = false;
  bool direct = false;
  std::string reason;
};

class Reader final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kReader;
  static Result<std::unique_ptr<Reader>> create(Device &device);
  ~Reader() override;
  Status close() override;

  // The ranges are checked already; the way of each is decided.
  Status submit(ReadJob &job, std::span<const ReadRange> ranges);
  // Until every copy is queued; then orders the job's stream behind them. With a failure: until
  // nothing of the job is in flight. False when `timeout_ms` passed first; 0 waits on.
  bool wait(ReadJob &job, uint32_t timeout_ms);
  void cancel(ReadJob &job);

  Device &device() const noexcept { return device_; }
  StagingRing &ring() noexcept { return *ring_; }
  uint32_t worker_count() const noexcept { return static_cast<uint32_t>(workers_.size()); }
  bool uses_uring() const noexcept { return uses_uring_; }
  bool fixed_buffers() const noexcept { return fixed_buffers_; }
  void set_path(PathTaken taken);
  PathTaken last_path() const;
  void ring_broke() noexcept { ring_broke_.store(true, std::memory_order_relaxed); }
  const std::string &backend_reason() const noexcept { return backend_reason_; }

 private:
  friend class ReadWorker;
  struct Taken {
    ReadJob *job = nullptr;
    const ReadPiece *piece = nullptr;
  };

  explicit Reader(Device &device);
  Status make_workers();
  Status choose_backend(uint32_t workers, std::vector<std::unique_ptr<AsyncQueue>> *queues);
  // None of these throws: a job that has begun to settle is always settled.
  Status make_wait(ReadJob &job) noexcept;
  void settle(ReadJob &job) noexcept;
  bool mark_targets(ReadJob &job) noexcept;
  void sync_participants(ReadJob &job) noexcept;

  // For workers. With `wait` it blocks until there is a piece or the reader stops.
  Taken take(bool wait);
  void finish(const Taken &taken, Status status) noexcept;
  bool idle();
  void remove_if_done(ReadJob &job) noexcept;

  Device &device_;
  std::unique_ptr<StagingRing> ring_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
  bool uses_uring_ = false;
  bool fixed_buffers_ = false;
  std::atomic<bool> ring_broke_{false};
  std::string backend_reason_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<ReadJob *> jobs_;  // with pieces that nobody has taken
  bool stopping_ = false;
  PathTaken last_path_;
};

}  // namespace sluice

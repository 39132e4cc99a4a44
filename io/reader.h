// The readers of one device: worker threads that take pieces of submitted jobs, read them into
// slots of the ring and queue the copies on streams of their own.
//
// Threads: jobs are submitted and waited for from any thread. One mutex guards the queue of jobs;
// it is never held across a read, a copy or a wait. The workers allocate nothing while they read.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "io/async_queue.h"
#include "io/disk_tuner.h"
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

  // Everything about a submit that can fail. The plan is made for the ring's slots, its pieces are
  // placed. Needs the device's context current, as what waits does.
  Status prepare(ReadJob &job);
  void submit(ReadJob &job) noexcept;
  // Until every copy is queued; then orders the job's stream behind them. With a failure: until
  // nothing of the job is in flight. False when `timeout_ms` passed first; 0 waits on.
  bool wait(ReadJob &job, uint32_t timeout_ms);
  // Until the range's copies are queued; false: the job has finished without.
  bool wait_for_range(ReadJob &job, size_t range);
  // Orders `stream` behind the copies of a range that has arrived.
  Status order_behind(ReadJob &job, size_t range, CUstream stream);
  bool finished(const ReadJob &job);
  void cancel(ReadJob &job) noexcept;
  void set_urgency(ReadJob &job, sluice_read_urgency urgency);

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
  // A disk, by file system: what is read from it at once is bounded.
  struct Disk {
    uint64_t id;
    DiskTuner tuner;
    uint32_t in_flight = 0;
  };
  struct Taken {
    ReadJob *job = nullptr;
    const ReadPiece *piece = nullptr;
    Disk *disk = nullptr;   // nullptr: from the page cache
    bool buffered = false;  // though a direct read would work
  };
  // What came of a piece.
  struct Outcome {
    Status status;
    bool arrived = false;    // else it failed, or was dropped
    uint64_t copied_by = 0;  // the worker's bit, where copies are queued
  };

  explicit Reader(Device &device);
  Status make_workers();
  Status choose_backend(uint32_t workers, std::vector<std::unique_ptr<AsyncQueue>> *queues);
  // None of these throws: a job that has begun to settle is always settled.
  Status make_wait(uint64_t workers, CUstream stream) noexcept;
  void settle(ReadJob &job) noexcept;
  Status mark_targets(ReadJob &job, CUstream stream) noexcept;
  void sync_participants(ReadJob &job) noexcept;
  template <typename Done>
  bool await(std::unique_lock<std::mutex> &lock, ReadJob &job, uint32_t timeout_ms, Done done);

  // For workers. With `wait` it blocks until there is a piece or the reader stops.
  Taken take(bool wait);
  void finish(const Taken &taken, Outcome outcome) noexcept;
  bool idle();
  void fail(ReadJob &job, Status status) noexcept;
  // Under the mutex. True: the caller ends the job, once it has let go of the mutex.
  bool stop(ReadJob &job, ReadStop reason) noexcept;
  bool stop_late(ReadJob &job) noexcept;
  bool comes_to_end(ReadJob &job) noexcept;
  ReadJob *next_late() noexcept;
  void end(ReadJob &job) noexcept;
  void leave_queue(ReadJob &job) noexcept;
  void know_disks(const ReadJob &job);
  Disk *disk_of(const ReadPiece &piece) noexcept;
  bool may_read_more(const Disk &disk, const ReadJob &job) const noexcept;
  Taken next_piece() noexcept;
  Taken next_piece_of(sluice_read_urgency urgency) noexcept;
  void disk_read_ended(const Taken &taken, bool ok) noexcept;

  Device &device_;
  std::unique_ptr<StagingRing> ring_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
  bool uses_uring_ = false;
  bool fixed_buffers_ = false;
  std::atomic<bool> ring_broke_{false};
  std::string backend_reason_;

  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::list<ReadJob *> jobs_;  // with pieces that nobody has taken
  std::deque<Disk> disks_;
  uint32_t most_at_once_ = 1;  // reads that the ring and the threads allow
  bool stopping_ = false;
  PathTaken last_path_;
};

}  // namespace sluice

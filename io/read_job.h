// One device's share of a read: its plan and how far it has come.
//
// Threads: `plan`, `files` and the options don't change once submitted; the rest is under the
// reader's mutex, but for what is atomic and what says otherwise.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "alloc/growable_buffer.h"
#include "io/range_progress.h"
#include "io/read_plan.h"
#include "runtime/device.h"

namespace sluice {

struct ReadJob;

// Who submitted a job. Told on the thread that noticed, with no lock held, before the job counts
// as finished.
class ReadListener {
 public:
  // Once for each range, empty ones aside: OK when its copies are queued.
  virtual void range_ended(ReadJob &job, size_t range, sluice_status status) noexcept = 0;
  virtual void job_failed(ReadJob &job) noexcept = 0;

 protected:
  ~ReadListener() = default;
};

// Why what has not begun is dropped: the first reason stays.
enum class ReadStop { kNone, kFailed, kCancelled, kTimedOut };

struct ReadJob {
  ReadJob(Device &owner, CUstream caller, ReadListener &told)
      : device(owner), open(owner.children(), ChildKind::kRead), stream(caller), listener(told) {}
  ~ReadJob() {
    drop_targets();
    for (File *file : files) file->use_ends();
  }
  ReadJob(const ReadJob &) = delete;
  ReadJob &operator=(const ReadJob &) = delete;

  // Needs the device's context current, if there are any: a destroyed buffer's memory may go.
  void drop_targets() noexcept {
    for (const auto &target : targets) target->read_ends();
    targets.clear();
  }

  bool all_taken() const noexcept {
    return next_disk == plan.disk_pieces && next_cached == plan.pieces.size();
  }
  bool stopped() const noexcept { return stop.load(std::memory_order_relaxed) != ReadStop::kNone; }

  Device &device;
  const OpenChild open;
  const CUstream stream;
  ReadListener &listener;
  ReadPlan plan;
  RangeProgress ranges;
  std::vector<File *> files;  // each once; held in use
  Event start;                // behind what the caller had queued at the submit
  std::atomic<uint64_t> done_bytes{0};

  sluice_read_urgency urgency = SLUICE_READ_DEMANDED;
  uint32_t timeout_ms = 0;  // 0: none
  std::chrono::steady_clock::time_point deadline;

  std::list<ReadJob *> place;  // in the queue of jobs, while that doesn't hold it
  bool submitted = false;
  size_t next_disk = 0;    // of plan.pieces: below plan.disk_pieces
  size_t next_cached = 0;  // the others
  size_t in_flight = 0;
  bool ending = false;  // nothing is in flight or left: its ranges are being told of
  bool finished = false;
  uint64_t participants = 0;  // workers whose streams have copies of it, one bit each
  std::atomic<ReadStop> stop{ReadStop::kNone};
  Status status;  // what failed
  uint32_t range_waiters = 0;
  std::condition_variable changed;  // finished; with waiters also: a range arrived

  std::mutex settling;  // guards what follows, from the submit on
  // The buffers of ours that it writes to: kept mapped until its copies are ordered or done.
  std::vector<std::shared_ptr<GrowableBuffer>> targets;
  bool settled = false;  // the wait has run to its end, `status` is its answer
};

}  // namespace sluice

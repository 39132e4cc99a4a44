// One call's worth of reading: its plan and how far it has come.
//
// Threads: `plan` and `files` don't change once submitted; the rest is under the reader's mutex,
// except the progress counter.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <vector>

#include "alloc/growable_buffer.h"
#include "io/read_plan.h"
#include "runtime/device.h"

namespace sluice {

class Reader;

struct ReadJob {
  ReadJob(Device &owner, CUstream caller)
      : device(owner), open(owner.children(), ChildKind::kRead), stream(caller) {}
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

  Device &device;
  const OpenChild open;
  const CUstream stream;
  ReadPlan plan;
  std::vector<File *> files;  // each once; held in use
  // The buffers of ours that it writes to: kept mapped until its copies are ordered or done.
  std::vector<std::shared_ptr<GrowableBuffer>> targets;
  Event start;  // behind what the caller had queued at the submit
  std::atomic<uint64_t> done_bytes{0};

  sluice_read_urgency urgency = SLUICE_READ_DEMANDED;
  uint32_t timeout_ms = 0;  // 0: none
  std::chrono::steady_clock::time_point deadline;

  bool submitted = false;  // the workers may know it
  size_t next_disk = 0;    // of plan.pieces: below plan.disk_pieces
  size_t next_cached = 0;  // the others
  size_t in_flight = 0;
  bool finished = false;
  bool cancelled = false;
  bool timed_out = false;     // its deadline passed with pieces left
  uint64_t participants = 0;  // workers whose streams have copies of it, one bit each
  Status status;              // the first failure
  std::condition_variable changed;

  std::atomic<bool> stopped{false};  // failed or cancelled: what has not begun is dropped
  bool settled = false;              // wait has run to its end, `status` is its answer
};

}  // namespace sluice

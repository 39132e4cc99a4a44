#include "io/reader.h"

#include <algorithm>
#include <chrono>

#include "io/read_worker.h"
#include "runtime/limits.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

uint32_t wanted_workers(const Runtime &runtime) {
  const uint32_t asked = runtime.options().io_workers;
  return asked ? asked : std::clamp(runtime.facts().processors * 3 / 4, 2u, kDefaultMaxWorkers);
}

}  // namespace

Reader::Reader(Device &device) : device_(device) {}

Result<std::unique_ptr<Reader>> Reader::create(Device &device) {
  std::unique_ptr<Reader> reader(new Reader(device));
  SLUICE_ASSIGN(reader->ring_, StagingRing::create(device, wanted_workers(device.runtime())));
  if (Status status = reader->make_workers(); !status.ok()) {
    static_cast<void>(reader->close());
    return status;
  }
  return reader;
}

// One ring a worker; all of them or none.
Status Reader::choose_backend(uint32_t workers, std::vector<std::unique_ptr<AsyncQueue>> *queues) {
  Runtime &runtime = device_.runtime();
  queues->resize(workers);
  if (runtime.options().io == SLUICE_IO_THREADS) {
    backend_reason_ = "positioned reads on threads, as asked";
    return {};
  }
  const uint32_t depth = std::max(2u, ring_->slot_count() / workers);
  for (auto &queue : *queues) {
    auto made = AsyncQueue::create(runtime, ring_->memory(), depth);
    if (made.ok()) {
      queue = made.take();
      continue;
    }
    if (runtime.options().io == SLUICE_IO_URING) return made.take_status();
    runtime.counters().uring_fallbacks.add();
    runtime.log().write(SLUICE_LOG_WARNING, "io", "positioned reads take the place of {}: {}",
                        AsyncQueue::name(), made.status().record().message);
    backend_reason_ = fmt::format("positioned reads on threads, since {} is refused: {}",
                                  AsyncQueue::name(), made.status().record().message);
    for (auto &other : *queues) other.reset();
    return {};
  }
  uses_uring_ = true;
  fixed_buffers_ = std::all_of(queues->begin(), queues->end(),
                               [](const auto &queue) { return queue->fixed_buffers(); });
  backend_reason_ = fmt::format("{}, {} queues of depth {}{}", AsyncQueue::name(), workers, depth,
                                fixed_buffers_ ? " with registered buffers" : "");
  return {};
}

Status Reader::make_workers() {
  const uint32_t count = std::min(wanted_workers(device_.runtime()), ring_->slot_count());
  std::vector<std::unique_ptr<AsyncQueue>> queues;
  SLUICE_TRY(choose_backend(count, &queues));
  const uint32_t depth = std::max(2u, ring_->slot_count() / count);
  workers_.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    SLUICE_ASSIGN(auto worker, ReadWorker::create(*this, i, std::move(queues[i]), depth));
    if (Status status = worker->start(); !status.ok()) {
      if (workers_.empty()) return status;
      device_.log().write(SLUICE_LOG_WARNING, "io", "{} reading threads in place of {}: {}",
                          workers_.size(), count, status.record().message);
      break;
    }
    workers_.push_back(std::move(worker));
  }
  most_at_once_ = uses_uring_ ? ring_->slot_count() : static_cast<uint32_t>(workers_.size());
  return {};
}

Reader::~Reader() { static_cast<void>(close()); }

Status Reader::close() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  for (auto &worker : workers_) worker->join();
  for (auto &worker : workers_) wait_for_stream(device_, worker->stream());
  workers_.clear();
  ring_.reset();
  return {};
}

void Reader::know_disks(const ReadJob &job) {
  for (size_t i = 0; i < job.plan.disk_pieces; ++i) {
    const ReadPiece &piece = job.plan.pieces[i];
    if (i != 0 && job.plan.pieces[i - 1].file == piece.file) continue;
    if (disk_of(piece)) continue;
    const bool both_ways = piece.direct && device_.runtime().options().direct_io == SLUICE_AUTO;
    disks_.push_back({piece.file->disk(), DiskTuner(most_at_once_, both_ways)});
  }
}

Reader::Disk *Reader::disk_of(const ReadPiece &piece) noexcept {
  for (Disk &disk : disks_)
    if (disk.id == piece.file->disk()) return &disk;
  return nullptr;
}

// Half of the room stays for what can be copied from the page cache meanwhile.
bool Reader::may_read_more(const Disk &disk, const ReadJob &job) const noexcept {
  const bool cached_left = job.next_cached < job.plan.pieces.size();
  const uint32_t room = cached_left ? std::max(most_at_once_ / 2, 1u) : most_at_once_;
  return disk.in_flight < std::min(disk.tuner.depth(), room);
}

Reader::Taken Reader::next_piece() noexcept {
  const Taken demanded = next_piece_of(SLUICE_READ_DEMANDED);
  return demanded.job ? demanded : next_piece_of(SLUICE_READ_SPECULATIVE);
}

// What is on a disk first: it takes longest.
Reader::Taken Reader::next_piece_of(sluice_read_urgency urgency) noexcept {
  for (ReadJob *job : jobs_) {
    if (job->urgency != urgency) continue;
    const std::vector<ReadPiece> &pieces = job->plan.pieces;
    Taken taken{job};
    if (job->next_disk < job->plan.disk_pieces) {
      Disk &disk = *disk_of(pieces[job->next_disk]);
      if (may_read_more(disk, *job)) {
        taken.piece = &pieces[job->next_disk++];
        taken.disk = &disk;
        taken.buffered = disk.tuner.buffered();
        ++disk.in_flight;
      }
    }
    if (!taken.piece && job->next_cached < pieces.size()) taken.piece = &pieces[job->next_cached++];
    if (!taken.piece) continue;
    ++job->in_flight;
    if (job->all_taken()) leave_queue(*job);
    return taken;
  }
  return {};
}

Status Reader::prepare(ReadJob &job) {
  SLUICE_ASSIGN(job.start, device_.events().take());
  SLUICE_TRY(job.start.record(job.stream));
  job.place.push_back(&job);
  const std::lock_guard lock(mutex_);
  know_disks(job);
  job.next_cached = job.plan.disk_pieces;
  return {};
}

void Reader::submit(ReadJob &job) noexcept {
  bool over;
  {
    const std::lock_guard lock(mutex_);
    job.deadline = Clock::now() + std::chrono::milliseconds(job.timeout_ms);
    job.submitted = true;
    jobs_.splice(jobs_.end(), job.place);
    over = comes_to_end(job);
  }
  over ? end(job) : work_.notify_all();
}

void Reader::leave_queue(ReadJob &job) noexcept {
  const auto found = std::find(jobs_.begin(), jobs_.end(), &job);
  if (found != jobs_.end()) job.place.splice(job.place.end(), jobs_, found);
}

bool Reader::comes_to_end(ReadJob &job) noexcept {
  if (!job.submitted || !(job.all_taken() || job.stopped())) return false;
  leave_queue(job);
  if (job.in_flight != 0 || job.ending) return false;
  job.ending = true;
  return true;
}

bool Reader::stop(ReadJob &job, ReadStop reason) noexcept {
  if (job.ending) return false;
  if (!job.stopped()) job.stop.store(reason, std::memory_order_relaxed);
  return comes_to_end(job);
}

void Reader::end(ReadJob &job) noexcept {
  const auto code = [&] {
    switch (job.stop.load(std::memory_order_relaxed)) {
      case ReadStop::kFailed:
        return job.status.code();
      case ReadStop::kTimedOut:
        return SLUICE_TIMED_OUT;
      default:
        return SLUICE_CANCELLED;
    }
  };
  for (const uint32_t range : job.plan.range_order)
    if (!job.ranges.has_arrived(range)) job.listener.range_ended(job, range, code());
  const std::lock_guard lock(mutex_);
  job.finished = true;
  job.changed.notify_all();
}

Reader::Taken Reader::take(bool wait) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (ReadJob *late = next_late()) {
      if (!stop_late(*late)) continue;
      lock.unlock();
      end(*late);
      lock.lock();
      continue;
    }
    const Taken taken = next_piece();
    if (taken.job || !wait || (stopping_ && jobs_.empty())) return taken;
    work_.wait(lock);
  }
}

void Reader::disk_read_ended(const Taken &taken, bool ok) noexcept {
  Disk &disk = *taken.disk;
  const uint32_t depth = disk.tuner.depth();
  const auto now = Clock::now().time_since_epoch();
  --disk.in_flight;
  if (ok)
    disk.tuner.ended(taken.piece->needed_bytes,
                     static_cast<uint64_t>(std::chrono::nanoseconds(now).count()));
  if (disk.in_flight == 0 && jobs_.empty()) disk.tuner.pause();
  if (jobs_.empty() && !stopping_) return;
  disk.tuner.depth() > depth || stopping_ ? work_.notify_all() : work_.notify_one();
}

bool Reader::idle() {
  const std::lock_guard lock(mutex_);
  return jobs_.empty();
}

void Reader::fail(ReadJob &job, Status status) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (job.stopped()) return;
    job.status = std::move(status);
    stop(job, ReadStop::kFailed);  // the failed piece is in flight: the end comes with it
  }
  job.listener.job_failed(job);
}

void Reader::finish(const Taken &taken, Outcome outcome) noexcept {
  ReadJob &job = *taken.job;
  const bool ok = outcome.status.ok();
  bool ranges_arrived = false;
  if (outcome.arrived) {
    job.done_bytes.fetch_add(taken.piece->payload_bytes, std::memory_order_relaxed);
    ranges_arrived = job.ranges.arrived(*taken.piece, outcome.copied_by, [&](size_t range) {
      job.listener.range_ended(job, range, SLUICE_OK);
    });
  }
  if (!ok) fail(job, std::move(outcome.status));
  bool over;
  {
    const std::lock_guard lock(mutex_);
    --job.in_flight;
    if (taken.disk) disk_read_ended(taken, ok);
    if (ranges_arrived && job.range_waiters != 0) job.changed.notify_all();
    over = comes_to_end(job);
  }
  if (over) end(job);
}

void Reader::cancel(ReadJob &job) noexcept {
  bool over;
  {
    const std::lock_guard lock(mutex_);
    over = stop(job, ReadStop::kCancelled);
  }
  if (over) end(job);
}

void Reader::set_urgency(ReadJob &job, sluice_read_urgency urgency) {
  const std::lock_guard lock(mutex_);
  job.urgency = urgency;
}

bool Reader::finished(const ReadJob &job) {
  const std::lock_guard lock(mutex_);
  return job.finished;
}

// Where every piece was begun in time, the read goes on to its end.
bool Reader::stop_late(ReadJob &job) noexcept {
  return !job.all_taken() && stop(job, ReadStop::kTimedOut);
}

ReadJob *Reader::next_late() noexcept {
  for (ReadJob *job : jobs_)
    if (job->timeout_ms != 0 && Clock::now() >= job->deadline) return job;
  return nullptr;
}

Status Reader::make_wait(uint64_t workers, CUstream stream) noexcept {
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (!(workers & (uint64_t{1} << i))) continue;
    SLUICE_ASSIGN(Event event, device_.events().take());
    SLUICE_TRY(event.record(workers_[i]->stream()));
    SLUICE_TRY(event.make_wait(stream));
  }
  return {};
}

void Reader::sync_participants(ReadJob &job) noexcept {
  for (uint32_t i = 0; i < workers_.size(); ++i) {
    if (!(job.participants & (uint64_t{1} << i))) continue;
    wait_for_stream(device_, workers_[i]->stream());
  }
}

void Reader::settle(ReadJob &job) noexcept {
  const ReadStop stop = job.stop.load(std::memory_order_relaxed);
  if (stop == ReadStop::kCancelled)
    job.status = error(SLUICE_CANCELLED, "the read was cancelled after {} of {} bytes",
                       job.done_bytes.load(), job.plan.total_bytes);
  if (stop == ReadStop::kTimedOut)
    job.status = error(SLUICE_TIMED_OUT, "the read's {} ms passed after {} of {} bytes",
                       job.timeout_ms, job.done_bytes.load(), job.plan.total_bytes);
  if (job.status.ok()) job.status = make_wait(job.participants, job.stream);
  if (!job.status.ok() || !mark_targets(job, job.stream).ok()) sync_participants(job);
  job.drop_targets();
  job.settled = true;
}

// The buffers outlive the copies, which `stream` is ordered behind now. Fails where that can't be
// noted: one was destroyed meanwhile, or memory ran out.
Status Reader::mark_targets(ReadJob &job, CUstream stream) noexcept {
  try {
    for (const auto &target : job.targets) SLUICE_TRY(target->use(stream));
    return {};
  } catch (const std::bad_alloc &) {
    return Status::out_of_host_memory();
  }
}

// Until done() or the time is over; a deadline that passes meanwhile acts.
template <typename Done>
bool Reader::await(std::unique_lock<std::mutex> &lock, ReadJob &job, uint32_t timeout_ms,
                   Done done) {
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  if (job.timeout_ms != 0 && (timeout_ms == 0 || job.deadline <= until) &&
      !job.changed.wait_until(lock, job.deadline, done) && stop_late(job)) {
    lock.unlock();
    end(job);
    lock.lock();
  }
  if (timeout_ms != 0) return job.changed.wait_until(lock, until, done);
  job.changed.wait(lock, done);
  return true;
}

bool Reader::wait(ReadJob &job, uint32_t timeout_ms) {
  {
    std::unique_lock lock(mutex_);
    if (!await(lock, job, timeout_ms, [&] { return job.finished; })) return false;
  }
  const std::lock_guard settling(job.settling);
  if (!job.settled) settle(job);
  return true;
}

bool Reader::wait_for_range(ReadJob &job, size_t range) {
  std::unique_lock lock(mutex_);
  ++job.range_waiters;
  await(lock, job, 0, [&] { return job.finished || job.ranges.has_arrived(range); });
  --job.range_waiters;
  return job.ranges.has_arrived(range);
}

Status Reader::order_behind(ReadJob &job, size_t range, CUstream stream) {
  const uint64_t workers = job.ranges.copied_by(range);
  if (workers == 0) return {};
  SLUICE_TRY(make_wait(workers, stream));
  const std::lock_guard settling(job.settling);
  return mark_targets(job, stream);
}

void Reader::set_path(PathTaken taken) {
  const std::lock_guard lock(mutex_);
  last_path_ = std::move(taken);
}

PathTaken Reader::last_path() const {
  const std::lock_guard lock(mutex_);
  PathTaken path = last_path_;
  for (const Disk &disk : disks_)
    if (const std::string found = disk.tuner.describe(); !found.empty())
      path.reason += "; the disk: " + found;
  if (path.uring && ring_broke_.load(std::memory_order_relaxed)) {
    path.uring = false;
    path.reason = fmt::format("positioned reads, since {} failed while reading; {}",
                              AsyncQueue::name(), path.reason);
  }
  return path;
}

}  // namespace sluice

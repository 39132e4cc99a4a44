#include "io/read_worker.h"

#include <algorithm>
#include <cstring>

#include "runtime/limits.h"
#include "runtime/os.h"

namespace sluice {

Result<std::unique_ptr<ReadWorker>> ReadWorker::create(Reader &reader, uint32_t index,
                                                       std::unique_ptr<AsyncQueue> queue,
                                                       uint32_t depth) {
  std::unique_ptr<ReadWorker> worker(new ReadWorker(reader, index, std::move(queue), depth));
  SLUICE_CUDA(reader.device().driver(), cuStreamCreate, "a copy stream", &worker->stream_,
              CU_STREAM_NON_BLOCKING);
  return worker;
}

ReadWorker::~ReadWorker() {
  if (stream_)
    give_back(device_, "cuStreamDestroy", [&] { return device_.cuda().cuStreamDestroy(stream_); });
}

Status ReadWorker::start() {
  const int result = os().thread_start(&ReadWorker::thread_body, this, &thread_);
  if (result != 0) return system_error("pthread_create", -result, "a reading thread");
  started_ = true;
  return {};
}

void ReadWorker::join() noexcept {
  if (started_) os().thread_join(thread_);
  started_ = false;
}

void ReadWorker::thread_body(void *self) { static_cast<ReadWorker *>(self)->run(); }

Status ReadWorker::prepare_thread() noexcept {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  SLUICE_CUDA(device_.driver(), cuCtxSetCurrent, "a reading thread", device_.context());
  SLUICE_CUDA(device_.driver(), cuThreadExchangeStreamCaptureMode, "a reading thread", &mode);
  return {};
}

void ReadWorker::run() noexcept {
  broken_ = prepare_thread();
  if (!broken_.ok()) broken_ = prepare_thread();
  for (;;) {
    while (busy_ < in_flight_.size() && begin_next(busy_ == 0)) reap();
    if (busy_ == 0) return;  // begin_next waited and the reader stops
    if (const AsyncQueue::Completion next = queue_->wait_one(); next.operation) complete(next);
  }
}

ReadWorker::InFlight *ReadWorker::free_entry() noexcept {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(),
                                  [](const InFlight &entry) { return !entry.taken.job; });
  return found == in_flight_.end() ? nullptr : &*found;
}

// Takes a piece and a slot for it and begins to read. With `wait` it blocks for both; otherwise
// false when there is none right now. What has been taken is begun: kept until something in flight
// ends, a piece would be held up by a read that hangs.
bool ReadWorker::begin_next(bool wait) noexcept {
  return wait ? wait_and_begin() : begin_at_once();
}

bool ReadWorker::wait_and_begin() noexcept {
  if (queue_ && !queue_->broken() && reader_.idle()) queue_->forget_files();
  const Reader::Taken taken = reader_.take(true);
  if (!taken.job) return false;
  Slot *slot = nullptr;
  if (!taken.piece->host) {
    const size_t most_pending = taken.piece->cached ? kSlotsPerWorker * reader_.worker_count()
                                                    : reader_.ring().slot_count();
    auto acquired = reader_.ring().acquire(true, most_pending);
    if (!acquired.ok()) {
      reader_.finish(taken, {acquired.take_status()});
      return true;
    }
    slot = acquired.value();
  }
  begin(taken, slot);
  return true;
}

// The slot first: a piece can't be put back.
bool ReadWorker::begin_at_once() noexcept {
  auto acquired = reader_.ring().acquire(false, 0);
  if (!acquired.ok() || !acquired.value()) return false;
  Slot *slot = acquired.value();
  const Reader::Taken taken = reader_.take(false);
  if (!taken.job || taken.piece->host) reader_.ring().release_free(std::exchange(slot, nullptr));
  if (!taken.job) return false;
  begin(taken, slot);
  return true;
}

void ReadWorker::begin(const Reader::Taken &taken, Slot *slot) noexcept {
  const ReadPiece &piece = *taken.piece;
  InFlight &entry = *free_entry();
  entry.taken = taken;
  entry.slot = slot;
  ++busy_;
  entry.operation = {};
  entry.operation.buffer = entry.slot ? entry.slot->data : piece.host;
  if (!broken_.ok() || entry.taken.job->stopped()) return end(entry, false);
  if (!piece.source) return begin_reading(entry);
  std::memcpy(entry.operation.buffer, piece.source, piece.needed_bytes);
  pass_on(entry, deliver(entry));
}

void ReadWorker::begin_reading(InFlight &entry) noexcept {
  const ReadPiece &piece = *entry.taken.piece;
  ReadOperation &operation = entry.operation;
  operation.file = piece.file;
  operation.offset = piece.offset;
  operation.length_bytes = piece.length_bytes;
  operation.needed_bytes = piece.needed_bytes;
  operation.direct = piece.direct && !entry.taken.buffered && piece.file->direct() >= 0;
  operation.uncached = piece.uncached || (piece.direct && !operation.direct);
  operation.fixed = queue_ && entry.slot && queue_->fixed_buffers();
  // Through one ring the page cache is copied by one thread: workers do it side by side.
  const bool by_worker = piece.cached && device_.runtime().options().io == SLUICE_IO_AUTO;
  if (queue_ && !queue_->broken() && !by_worker) return queue_->submit(operation);
  perform(entry);
}

void ReadWorker::perform(InFlight &entry) noexcept {
  ReadOperation &operation = entry.operation;
  operation.fixed = false;
  for (;;) {
    const int descriptor = operation.choose();
    const auto read = operation.asked_uncached ? os().read_uncached : os().read_at;
    const int64_t result =
        read(descriptor, operation.next_buffer(), operation.next_bytes(), operation.next_offset());
    const ReadStep step = operation.advance(static_cast<int>(result));
    if (step != ReadStep::kAgain) return end(entry, step == ReadStep::kDone);
  }
}

// What the disk has delivered meanwhile is passed on before more is copied from the page cache.
void ReadWorker::reap() noexcept {
  AsyncQueue::Completion completion;
  if (!queue_ || busy_ == 0) return;
  queue_->flush();
  while (busy_ != 0 && queue_->poll_one(&completion)) complete(completion);
}

void ReadWorker::complete(const AsyncQueue::Completion &completion) noexcept {
  if (queue_->broken()) reader_.ring_broke();
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight &entry) {
    return &entry.operation == completion.operation;
  });
  InFlight &entry = *found;
  if (!completion.performed) return perform(entry);
  const ReadStep step = entry.operation.advance(completion.result);
  if (step != ReadStep::kAgain) return end(entry, step == ReadStep::kDone);
  if (queue_->broken()) return perform(entry);
  queue_->submit(entry.operation);
}

void ReadWorker::count(const InFlight &entry) noexcept {
  Counters &counters = device_.counters();
  counters.reads.add();
  if (entry.operation.direct) counters.direct_reads.add();
  counters.bytes_read.add(entry.operation.got_bytes);
  counters.reads_retried.add(entry.operation.retries);
}

// The piece has been read, has failed, or was dropped: what follows, whatever of the three.
void ReadWorker::end(InFlight &entry, bool read_ok) noexcept {
  Reader::Outcome outcome;
  if (read_ok) {
    count(entry);
    leave_uncached(entry);
    outcome = deliver(entry);
  } else {
    if (!broken_.ok())
      outcome.status = broken_.copy();
    else if (!entry.taken.job->stopped())
      outcome.status = entry.operation.failure();
    if (entry.slot) reader_.ring().release_free(entry.slot);
  }
  pass_on(entry, std::move(outcome));
}

void ReadWorker::pass_on(InFlight &entry, Reader::Outcome outcome) noexcept {
  if (!outcome.status.ok()) {
    const ReadPlan &plan = entry.taken.job->plan;
    if (const char *name = plan.name_at(*entry.taken.piece, entry.operation.next_offset()))
      outcome.status = std::move(outcome.status).with_context(name);
  }
  const Reader::Taken taken = std::exchange(entry.taken, {});
  entry.slot = nullptr;
  --busy_;
  reader_.finish(taken, std::move(outcome));
}

// Where the system knows no flag for it, what was fetched is dropped once it has been read.
void ReadWorker::leave_uncached(const InFlight &entry) noexcept {
  const ReadOperation &operation = entry.operation;
  if (!operation.uncached || operation.direct || operation.file->uncached_reads()) return;
  os().drop_cached(operation.file->buffered(), operation.offset, operation.got_bytes);
}

Reader::Outcome ReadWorker::deliver(InFlight &entry) noexcept {
  Reader::Outcome outcome;
  bool queued = false;
  const bool dropped = entry.taken.job->stopped();
  if (!dropped) outcome.status = queue_copies(entry, entry.operation.buffer, &queued);
  if (entry.slot) release_slot(entry, queued, &outcome.status);
  outcome.arrived = !dropped && outcome.status.ok();
  if (queued) outcome.copied_by = bit();
  return outcome;
}

// Before the first copy of a job this worker's stream waits for what the caller had queued.
Status ReadWorker::await_start(ReadJob &job) noexcept {
  {
    const std::lock_guard lock(reader_.mutex_);
    if (job.participants & bit()) return {};
  }
  SLUICE_TRY(job.start.make_wait(stream_));
  const std::lock_guard lock(reader_.mutex_);
  job.participants |= bit();
  return {};
}

Status ReadWorker::queue_copies(const InFlight &entry, const std::byte *buffer,
                                bool *queued) noexcept {
  ReadJob &job = *entry.taken.job;
  const ReadPiece &piece = *entry.taken.piece;
  for (uint32_t i = 0; i < piece.segment_count; ++i) {
    const ReadSegment &segment = job.plan.segments[piece.first_segment + i];
    const std::byte *from = buffer + segment.buffer_offset;
    if (segment.host) std::memcpy(segment.host, from, segment.bytes);
    if (!segment.device_address) continue;
    if (!*queued) SLUICE_TRY(await_start(job));
    *queued = true;
    SLUICE_CUDA(device_.driver(), cuMemcpyHtoDAsync, "", segment.device_address, from,
                segment.bytes, stream_);
    device_.counters().copies.add();
    device_.counters().bytes_copied.add(segment.bytes);
  }
  return {};
}

// A slot whose copies can't be marked by an event is waited for on the spot.
void ReadWorker::release_slot(InFlight &entry, bool copies_queued, Status *status) noexcept {
  if (!copies_queued) return reader_.ring().release_free(entry.slot);
  Status recorded = entry.slot->event.record(stream_);
  if (recorded.ok()) return reader_.ring().release_pending(entry.slot);
  if (status->ok()) *status = std::move(recorded);
  wait_for_stream(device_, stream_);
  reader_.ring().release_free(entry.slot);
}

}  // namespace sluice

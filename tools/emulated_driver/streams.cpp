// Streams: a queue and a lazily started thread each, in order. Events, waits and the legacy
// stream's barriers are points in other streams' orders on which an operation depends. Locks: a
// stream's own mutex, never held while an operation runs or another stream is waited for.
// Invariant: completed <= submitted; the operation that runs is the queue's front; points refer
// only to what was submitted before, so that waiting can't go round in a circle.
#include "gate.h"
#include "process.h"
#include "state.h"

namespace emulated {

namespace {

thread_local bool per_thread_wanted = false;

// The calling thread's default streams, one per context; given up when the thread ends.
struct ThreadStreams {
  struct Entry {
    Context *context;
    Stream *stream;
    uint64_t id;
  };
  std::vector<Entry> entries;
};

thread_local ThreadStreams *thread_streams = nullptr;

void complete_front(Stream &stream) {  // stream's mutex held
  const uint64_t sequence = stream.queue.front().sequence;
  if (writes_host(stream.queue.front())) --pending_host_writers;
  stream.queue.pop();
  stream.completed.store(sequence, std::memory_order_release);
  if (stream.waiters) stream.done.notify_all();
}

void wait_dependencies(const Op &op) {
  for (unsigned i = 0; i < op.dependency_count; ++i) wait_for(op.dependencies[i]);
  if (op.more)
    for (const Point &point : *op.more) wait_for(point);
}

void run_stream(void *argument) {
  Stream &stream = *static_cast<Stream *>(argument);
  std::unique_lock lock(stream.mutex);
  for (;;) {
    while (stream.queue.empty() && !stream.stop) {
      stream.sleeping = true;
      stream.work.wait(lock);
      stream.sleeping = false;
    }
    if (stream.queue.empty()) return;
    Op op = stream.queue.front();
    lock.unlock();
    wait_dependencies(op);
    execute(stream, op);
    discard(op);
    lock.lock();
    complete_front(stream);
  }
}

bool cheap(const Op &op) { return op.kind == OpKind::record || op.kind == OpKind::nothing; }

void drop_reached(Op &op) {
  unsigned kept = 0;
  for (unsigned i = 0; i < op.dependency_count; ++i)
    if (!reached(op.dependencies[i])) op.dependencies[kept++] = op.dependencies[i];
  op.dependency_count = static_cast<uint8_t>(kept);
}

// The legacy stream waits for all blocking streams, and they for it.
void add_legacy_barriers(Stream &stream, Op &op) {
  if (!stream.blocking) return;
  Context &context = *stream.context;
  if (stream.kind != StreamKind::legacy) {
    add_dependency(op, last_point(*context.legacy));
    return;
  }
  std::lock_guard lock(context.streams_mutex);
  for (Stream *other : context.streams)
    if (other->blocking) add_dependency(op, last_point(*other));
}

void stop_thread(Stream &stream) {
  {
    std::lock_guard lock(stream.mutex);
    stream.stop = true;
    stream.work.notify_one();
  }
  if (stream.thread.joinable()) stream.thread.join();
  stream.stop = false;
}

// Gives back destroyed streams whose work is done; their threads have ended or are about to.
void reap(Context &context) {
  std::vector<Stream *> ended;
  {
    std::lock_guard lock(context.streams_mutex);
    std::erase_if(context.streams, [&](Stream *stream) {
      std::lock_guard stream_lock(stream->mutex);
      if (!stream->retiring || !stream->queue.empty()) return false;
      stream->retiring = false;
      ended.push_back(stream);
      return true;
    });
  }
  for (Stream *stream : ended) {
    stop_thread(*stream);
    state.streams.give_back(stream);
  }
}

void retire(Stream &stream) {
  std::lock_guard lock(stream.mutex);
  stream.live = false;
  stream.retiring = true;
}

void destroy_stream(Stream &stream) {
  Context &context = *stream.context;
  retire(stream);
  reap(context);
}

void end_thread_streams(void *ended) {
  auto *streams = static_cast<ThreadStreams *>(ended);
  for (const ThreadStreams::Entry &entry : streams->entries)
    if (entry.context->live && entry.stream->live && entry.stream->id == entry.id) {
      // Where it can't be reaped, the next stream that is made or destroyed does that.
      kEndingThreadsMayJoin ? destroy_stream(*entry.stream) : retire(*entry.stream);
    }
  delete streams;
  thread_streams = nullptr;
}

Stream *thread_stream(Context &context) {
  if (!thread_streams) {
    thread_streams = new ThreadStreams;
    at_thread_end(end_thread_streams, thread_streams);
  }
  for (const ThreadStreams::Entry &entry : thread_streams->entries)
    if (entry.context == &context && entry.stream->live && entry.stream->id == entry.id)
      return entry.stream;
  Stream *stream = make_stream(context, StreamKind::per_thread, 0, 0);
  if (stream) thread_streams->entries.push_back({&context, stream, stream->id});
  return stream;
}

}  // namespace

void use_per_thread_streams(bool on) { per_thread_wanted = on; }
bool per_thread_streams() { return per_thread_wanted; }

Stream *default_stream(Context &context) {
  return per_thread_wanted ? thread_stream(context) : context.legacy;
}

Stream *make_stream(Context &context, StreamKind kind, unsigned flags, int priority) {
  reap(context);
  Stream *stream = state.streams.take();
  if (!stream) return nullptr;
  {
    std::lock_guard lock(stream->mutex);
    stream->kind = kind;
    stream->context = &context;
    stream->device = context.device->ordinal;
    stream->flags = flags;
    stream->priority = priority;
    stream->id = state.next_stream_id++;
    stream->blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
    stream->retiring = false;
    stream->stop = false;
    stream->capture = nullptr;
    stream->live = true;
  }
  if (kind == StreamKind::legacy) return stream;
  std::lock_guard lock(context.streams_mutex);
  context.streams.push_back(stream);
  return stream;
}

Stream *resolve_stream(CUstream handle, CUresult *why) {
  Context *context = current_context();
  *why = CUDA_ERROR_INVALID_CONTEXT;
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value <= 2) {
    if (!context) return nullptr;
    Stream *stream = value == 2   ? thread_stream(*context)
                     : value == 1 ? context->legacy
                                  : default_stream(*context);
    if (!stream) *why = CUDA_ERROR_OUT_OF_MEMORY;
    return stream;
  }
  *why = CUDA_ERROR_INVALID_HANDLE;
  if (!state.streams.owns(handle)) return nullptr;
  Stream *stream = reinterpret_cast<Stream *>(handle);
  if (!stream->live) {
    report_misuse("a destroyed stream is used (%p)", static_cast<void *>(handle));
    *why = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return nullptr;
  }
  return stream;
}

Point last_point(Stream &stream) {
  return {&stream, stream.submitted.load(std::memory_order_acquire)};
}

bool reached(Point point) {
  return point.stream->completed.load(std::memory_order_acquire) >= point.sequence;
}

void add_dependency(Op &op, Point point) {
  if (reached(point)) return;
  if (op.dependency_count < kInlineDependencies) {
    op.dependencies[op.dependency_count++] = point;
    return;
  }
  if (!op.more) op.more = new std::vector<Point>;
  op.more->push_back(point);
}

void wait_for(Point point) {
  if (reached(point)) return;
  Stream &stream = *point.stream;
  std::unique_lock lock(stream.mutex);
  ++stream.waiters;
  while (!reached(point)) stream.done.wait(lock);
  --stream.waiters;
}

CUresult submit(Stream &stream, Op &op) {
  if (active_captures.load(std::memory_order_relaxed)) {
    if (stream.capture) return capture_op(stream, op);
    if (stream.kind == StreamKind::legacy)
      if (CUresult answer = check_legacy_capture(stream, true)) {
        discard(op);
        return answer;
      }
  }
  add_legacy_barriers(stream, op);
  std::lock_guard lock(stream.mutex);
  op.sequence = stream.submitted.load(std::memory_order_relaxed) + 1;
  drop_reached(op);
  if (op.kind == OpKind::record) stamp_record(stream, op);
  if (stream.queue.empty() && cheap(op) && op.dependency_count == 0 && !op.more) {
    if (op.kind == OpKind::record) complete_record(op.record);
    stream.submitted.store(op.sequence, std::memory_order_release);
    stream.completed.store(op.sequence, std::memory_order_release);
    return CUDA_SUCCESS;
  }
  if (!stream.thread.joinable() && !start_quiet_thread(stream.thread, run_stream, &stream)) {
    discard(op);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream.queue.push(op);
  if (writes_host(op)) ++pending_host_writers;
  stream.submitted.store(op.sequence, std::memory_order_release);
  if (stream.sleeping) stream.work.notify_one();
  return CUDA_SUCCESS;
}

void drain_context(Context &context) {
  std::vector<Point> points;
  {
    std::lock_guard lock(context.streams_mutex);
    for (Stream *stream : context.streams) points.push_back(last_point(*stream));
  }
  points.push_back(last_point(*context.legacy));
  for (const Point &point : points) wait_for(point);
}

// Teardown: waits for what is queued, then ends the threads.
void stop_streams(Context &context) {
  drain_context(context);
  std::vector<Stream *> streams;
  {
    std::lock_guard lock(context.streams_mutex);
    streams.swap(context.streams);
  }
  streams.push_back(context.legacy);
  for (Stream *stream : streams) {
    stream->live = false;
    {
      std::lock_guard lock(stream->mutex);
      stream->retiring = false;
    }
    stop_thread(*stream);
    state.streams.give_back(stream);
  }
  context.legacy = nullptr;
}

uint64_t pending_operations() {
  uint64_t pending = 0;
  for (size_t i = 0; i < state.streams.size(); ++i)
    pending += state.streams[i].submitted - state.streams[i].completed;
  return pending;
}

// Work of the legacy stream includes what it would wait for.
CUresult synchronize_stream(Stream &stream) {
  if (stream.kind == StreamKind::legacy) {
    Op op;
    if (CUresult answer = submit(stream, op)) return answer;
  }
  wait_for(last_point(stream));
  return static_cast<CUresult>(stream.context->sticky.load());
}

// ---- entry points ------------------------------------------------------------------------------

CUresult stream_create_with_priority(CUstream *out, unsigned flags, int priority) {
  if (!out || (flags & ~static_cast<unsigned>(CU_STREAM_NON_BLOCKING)))
    return CUDA_ERROR_INVALID_VALUE;
  if (priority > 0) priority = 0;
  if (priority < -5) priority = -5;
  Stream *stream = make_stream(*current_context(), StreamKind::created, flags, priority);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<CUstream>(stream);
  return CUDA_SUCCESS;
}

CUresult stream_create(CUstream *out, unsigned flags) {
  return stream_create_with_priority(out, flags, 0);
}

CUresult stream_destroy(CUstream handle) {
  CUresult why;
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return CUDA_ERROR_INVALID_VALUE;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (stream->kind != StreamKind::created) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  destroy_stream(*stream);
  return CUDA_SUCCESS;
}

CUresult stream_query(CUstream handle) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (CUresult answer = refuse_captured(*stream)) return answer;
  if (stream->kind == StreamKind::legacy) {
    Op op;
    if (CUresult answer = submit(*stream, op)) return answer;
  }
  if (!reached(last_point(*stream))) return CUDA_ERROR_NOT_READY;
  return static_cast<CUresult>(stream->context->sticky.load());
}

CUresult stream_synchronize(CUstream handle) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (CUresult answer = refuse_captured(*stream)) return answer;
  return synchronize_stream(*stream);
}

CUresult stream_get_flags(CUstream handle, unsigned *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->flags;
  return CUDA_SUCCESS;
}

CUresult stream_get_priority(CUstream handle, int *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->priority;
  return CUDA_SUCCESS;
}

CUresult stream_get_id(CUstream handle, unsigned long long *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->id;
  return CUDA_SUCCESS;
}

CUresult stream_get_ctx(CUstream handle, CUcontext *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult stream_get_ctx_v2(CUstream handle, CUcontext *out, CUgreenCtx *green) {
  if (green) *green = nullptr;
  return stream_get_ctx(handle, out);
}

CUresult stream_get_device(CUstream handle, CUdevice *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = stream->device;
  return CUDA_SUCCESS;
}

CUresult launch_host_func(CUstream handle, CUhostFn function, void *user) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!function) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  op.kind = OpKind::host_function;
  op.host = {function, nullptr, handle, user};
  return submit(*stream, op);
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void *user,
                             unsigned flags) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!callback || flags) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return refuse_captured(*stream);
  Op op;
  op.kind = OpKind::callback;
  op.host = {nullptr, callback, handle, user};
  return submit(*stream, op);
}

}  // namespace emulated

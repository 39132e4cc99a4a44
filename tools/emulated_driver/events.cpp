// Events: the last record's point in a stream's order, and when it was reached.
// Locks: an event's mutex. Invariant: a record operation writes its time only if no later record
// was made (generation), so that a reused event never gets an older record's time.
#include "state.h"

namespace emulated {

namespace {

Event *resolve_event(CUevent handle, CUresult *why) {
  *why = CUDA_ERROR_INVALID_HANDLE;
  if (!handle || !state.events.owns(handle)) return nullptr;
  Event *event = reinterpret_cast<Event *>(handle);
  if (!event->live) {
    report_misuse("a destroyed event is used (%p)", static_cast<void *>(handle));
    return nullptr;
  }
  return event;
}

struct Snapshot {
  bool recorded;
  Point point;
  bool captured;
};

Snapshot snapshot(Event &event) {
  std::lock_guard lock(event.mutex);
  return {event.recorded, event.point, event.capture_id != 0};
}

CUresult record(CUevent event_handle, CUstream stream_handle, unsigned flags) {
  CUresult why;
  Event *event = resolve_event(event_handle, &why);
  if (!event) return why;
  Stream *stream = resolve_stream(stream_handle, &why);
  if (!stream) return why;
  if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  Op op;
  op.kind = OpKind::record;
  if (stream->capture && !(flags & CU_EVENT_RECORD_EXTERNAL))
    return capture_record(*stream, *event);
  op.record = {event, 0};
  return submit(*stream, op);
}

}  // namespace

void stamp_record(Stream &stream, Op &op) {
  Event &event = *op.record.event;
  std::lock_guard lock(event.mutex);
  op.record.generation = ++event.generation;
  event.capture_id = 0;
  event.recorded = true;
  event.point = {&stream, op.sequence};
}

void complete_record(const RecordOp &record) {
  const uint64_t time = now_ns();
  std::lock_guard lock(record.event->mutex);
  if (record.event->generation == record.generation) record.event->time_ns = time;
}

void destroy_context_events(Context &context) {
  for (size_t i = 0; i < state.events.size(); ++i) {
    Event &event = state.events[i];
    if (!event.live || event.context != &context) continue;
    event.live = false;
    state.events.give_back(&event);
  }
}

// ---- entry points ------------------------------------------------------------------------------

CUresult event_create(CUevent *out, unsigned flags) {
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (!out || (flags & ~kKnown)) return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS) return CUDA_ERROR_NOT_SUPPORTED;
  Event *event = state.events.take();
  if (!event) return CUDA_ERROR_OUT_OF_MEMORY;
  {
    std::lock_guard lock(event->mutex);
    event->context = current_context();
    event->flags = flags;
    event->recorded = false;
    event->capture_id = 0;
    event->time_ns = 0;
    ++event->generation;
  }
  event->live = true;
  *out = reinterpret_cast<CUevent>(event);
  return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent handle) {
  CUresult why;
  Event *event = resolve_event(handle, &why);
  if (!event) return why;
  event->live = false;
  state.events.give_back(event);
  return CUDA_SUCCESS;
}

CUresult event_record(CUevent event, CUstream stream) { return record(event, stream, 0); }

CUresult event_record_with_flags(CUevent event, CUstream stream, unsigned flags) {
  return record(event, stream, flags);
}

CUresult event_query(CUevent handle) {
  CUresult why;
  Event *event = resolve_event(handle, &why);
  if (!event) return why;
  const Snapshot now = snapshot(*event);
  if (now.captured) return CUDA_ERROR_CAPTURED_EVENT;
  if (now.recorded && !reached(now.point)) return CUDA_ERROR_NOT_READY;
  return static_cast<CUresult>(event->context->sticky.load());
}

CUresult event_synchronize(CUevent handle) {
  CUresult why;
  Event *event = resolve_event(handle, &why);
  if (!event) return why;
  const Snapshot now = snapshot(*event);
  if (now.captured) return CUDA_ERROR_CAPTURED_EVENT;
  if (now.recorded) wait_for(now.point);
  return static_cast<CUresult>(event->context->sticky.load());
}

CUresult event_elapsed_time(float *out, CUevent start_handle, CUevent end_handle) {
  CUresult why;
  Event *start = resolve_event(start_handle, &why);
  Event *end = start ? resolve_event(end_handle, &why) : nullptr;
  if (!start || !end) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  const Snapshot first = snapshot(*start), second = snapshot(*end);
  if (first.captured || second.captured) return CUDA_ERROR_CAPTURED_EVENT;
  if (!first.recorded || !second.recorded) return CUDA_ERROR_INVALID_HANDLE;
  if (!reached(first.point) || !reached(second.point)) return CUDA_ERROR_NOT_READY;
  uint64_t from, to;
  {
    std::lock_guard lock(start->mutex);
    from = start->time_ns;
  }
  {
    std::lock_guard lock(end->mutex);
    to = end->time_ns;
  }
  *out = static_cast<float>(static_cast<double>(static_cast<int64_t>(to - from)) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult stream_wait_event(CUstream stream_handle, CUevent event_handle, unsigned flags) {
  CUresult why;
  Stream *stream = resolve_stream(stream_handle, &why);
  if (!stream) return why;
  Event *event = resolve_event(event_handle, &why);
  if (!event) return why;
  if (flags & ~1u) return CUDA_ERROR_INVALID_VALUE;
  if (!(flags & CU_EVENT_WAIT_EXTERNAL)) {
    bool handled = false;
    CUresult answer = capture_wait(*stream, *event, &handled);
    if (handled) return answer;
  }
  const Snapshot now = snapshot(*event);
  if (!now.recorded || reached(now.point)) return CUDA_SUCCESS;
  Op op;
  add_dependency(op, now.point);
  return submit(*stream, op);
}

}  // namespace emulated

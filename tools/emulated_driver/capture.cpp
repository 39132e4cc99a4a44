// Stream capture and graphs. A capture keeps the operations of all its streams in the order in
// which they were queued, which is one valid order of the graph; replaying queues them on one
// stream. Whether forked streams were joined is decided by vector clocks: one counter per stream of
// the capture. Locks: the capture mutex guards captures, graphs and the streams' capture pointers.
// Invariant: a stream's capture pointer is set exactly while the stream takes part in a live
// capture.
#include <algorithm>

#include "state.h"

namespace emulated {

std::atomic<unsigned> active_captures{0};

struct CapturingStream {
  Stream *stream;
  std::vector<uint64_t> clock;  // what this stream is ordered behind; its own entry counts its work
};

struct Capture {
  uint64_t id = 0;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id thread;
  Stream *origin = nullptr;
  bool invalid = false;
  std::vector<CapturingStream> streams;
  std::vector<Op> ops;
};

namespace {

struct Graph {
  std::vector<Op> ops;
};

std::mutex mutex;
std::vector<std::unique_ptr<Capture>> &captures = *new std::vector<std::unique_ptr<Capture>>;
std::unordered_set<Graph *> &graphs = *new std::unordered_set<Graph *>;
std::unordered_set<Graph *> &executables = *new std::unordered_set<Graph *>;
uint64_t next_id = 1;
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

void merge(std::vector<uint64_t> &into, const std::vector<uint64_t> &from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

size_t index_in(Capture &capture, const Stream &stream) {
  for (size_t i = 0; i < capture.streams.size(); ++i)
    if (capture.streams[i].stream == &stream) return i;
  return SIZE_MAX;
}

void join_capture(Capture &capture, Stream &stream, std::vector<uint64_t> clock) {
  capture.streams.push_back({&stream, std::move(clock)});
  capture.streams.back().clock.resize(capture.streams.size());
  stream.capture = &capture;
}

Capture *capture_by_id(uint64_t id) {
  for (const auto &capture : captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

void end_capture(Capture &capture) {
  for (CapturingStream &each : capture.streams) each.stream->capture = nullptr;
  std::erase_if(captures, [&](const auto &each) { return each.get() == &capture; });
  active_captures = static_cast<unsigned>(captures.size());
}

bool all_joined(Capture &capture) {
  const std::vector<uint64_t> &origin = capture.streams[index_in(capture, *capture.origin)].clock;
  for (size_t i = 0; i < capture.streams.size(); ++i) {
    const uint64_t seen = i < origin.size() ? origin[i] : 0;
    if (seen < capture.streams[i].clock[i]) return false;
  }
  return true;
}

bool forbids(const Capture &capture) {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  const bool own = capture.thread == std::this_thread::get_id();
  if (own) return capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
         capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

template <class Handle>
Graph *find(std::unordered_set<Graph *> &set, Handle handle) {
  Graph *graph = reinterpret_cast<Graph *>(handle);
  return set.count(graph) ? graph : nullptr;
}

}  // namespace

CUresult check_capture_safety() {
  std::lock_guard lock(mutex);
  CUresult answer = CUDA_SUCCESS;
  for (const auto &capture : captures) {
    if (!forbids(*capture)) continue;
    capture->invalid = true;
    answer = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return answer;
}

CUresult capture_op(Stream &stream, Op &op) {
  std::lock_guard lock(mutex);
  Capture *capture = stream.capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalid) {
    discard(op);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  const size_t i = index_in(*capture, stream);
  ++capture->streams[i].clock[i];
  if (op.kind == OpKind::nothing) return CUDA_SUCCESS;
  capture->ops.push_back(op);
  return CUDA_SUCCESS;
}

CUresult check_legacy_capture(Stream &legacy, bool invalidates) {
  std::lock_guard lock(mutex);
  CUresult answer = CUDA_SUCCESS;
  for (const auto &capture : captures)
    for (const CapturingStream &each : capture->streams)
      if (each.stream->context == legacy.context && each.stream->blocking) {
        if (invalidates) capture->invalid = true;
        answer = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  return answer;
}

CUresult refuse_captured(Stream &stream) {
  if (!stream.capture) return CUDA_SUCCESS;
  std::lock_guard lock(mutex);
  if (Capture *capture = stream.capture) capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult capture_record(Stream &stream, Event &event) {
  std::lock_guard lock(mutex);
  Capture *capture = stream.capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::lock_guard event_lock(event.mutex);
  ++event.generation;
  event.recorded = false;
  event.capture_id = capture->id;
  event.capture_clock = capture->streams[index_in(*capture, stream)].clock;
  return CUDA_SUCCESS;
}

CUresult capture_wait(Stream &stream, Event &event, bool *handled) {
  std::lock_guard lock(mutex);
  uint64_t id;
  std::vector<uint64_t> clock;
  {
    std::lock_guard event_lock(event.mutex);
    id = event.capture_id;
    clock = event.capture_clock;
  }
  Capture *own = stream.capture;
  if (!own && !id) return CUDA_SUCCESS;
  *handled = true;
  if (own && own->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!id) {
    own->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  Capture *from = capture_by_id(id);
  if (!from) return CUDA_ERROR_CAPTURED_EVENT;
  if (own && own != from) {
    own->invalid = from->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (from->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (stream.kind == StreamKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  if (own)
    merge(own->streams[index_in(*own, stream)].clock, clock);
  else
    join_capture(*from, stream, std::move(clock));
  return CUDA_SUCCESS;
}

void abandon_captures(Context &context) {
  std::lock_guard lock(mutex);
  for (size_t i = captures.size(); i-- > 0;)
    if (captures[i]->origin->context == &context) end_capture(*captures[i]);
}

uint64_t live_graphs() {
  std::lock_guard lock(mutex);
  return graphs.size() + executables.size();
}

// ---- entry points: capture ---------------------------------------------------------------------

CUresult stream_begin_capture_v2(CUstream handle, CUstreamCaptureMode mode) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  if (stream->kind == StreamKind::legacy) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::lock_guard lock(mutex);
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_unique<Capture>();
  capture->id = next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  join_capture(*capture, *stream, {});
  captures.push_back(std::move(capture));
  active_captures = static_cast<unsigned>(captures.size());
  return CUDA_SUCCESS;
}

CUresult stream_begin_capture(CUstream handle) {
  return stream_begin_capture_v2(handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult stream_end_capture(CUstream handle, CUgraph *out) {
  CUresult why;
  if (out) *out = nullptr;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  Capture *capture = stream->capture;
  if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  CUresult answer = CUDA_SUCCESS;
  if (capture->invalid)
    answer = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (!all_joined(*capture))
    answer = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  if (answer == CUDA_SUCCESS) {
    auto *graph = new Graph{std::move(capture->ops)};
    graphs.insert(graph);
    *out = reinterpret_cast<CUgraph>(graph);
  }
  end_capture(*capture);
  return answer;
}

CUresult stream_is_capturing(CUstream handle, CUstreamCaptureStatus *out) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = CU_STREAM_CAPTURE_STATUS_NONE;
  if (!active_captures) return CUDA_SUCCESS;
  if (stream->kind == StreamKind::legacy) return check_legacy_capture(*stream, false);
  std::lock_guard lock(mutex);
  if (const Capture *capture = stream->capture)
    *out =
        capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult stream_get_capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id) {
  if (CUresult answer = stream_is_capturing(handle, status)) return answer;
  if (!id || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  std::lock_guard lock(mutex);
  if (const Capture *capture = stream->capture) *id = capture->id;
  return CUDA_SUCCESS;
}

// Nodes aren't objects here: the graph under construction and its dependencies stay empty.
CUresult stream_get_capture_info_v2(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                    CUgraph *graph, const CUgraphNode **dependencies,
                                    size_t *count) {
  if (graph) *graph = nullptr;
  if (dependencies) *dependencies = nullptr;
  if (count) *count = 0;
  return stream_get_capture_info(handle, status, id);
}

CUresult stream_get_capture_info_v3(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
                                    CUgraph *graph, const CUgraphNode **dependencies,
                                    const CUgraphEdgeData **edges, size_t *count) {
  if (edges) *edges = nullptr;
  return stream_get_capture_info_v2(handle, status, id, graph, dependencies, count);
}

CUresult thread_exchange_stream_capture_mode(CUstreamCaptureMode *mode) {
  if (!mode || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

// ---- entry points: graphs ----------------------------------------------------------------------

CUresult graph_create(CUgraph *out, unsigned flags) {
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(mutex);
  auto *graph = new Graph;
  graphs.insert(graph);
  *out = reinterpret_cast<CUgraph>(graph);
  return CUDA_SUCCESS;
}

CUresult graph_get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count) {
  std::lock_guard lock(mutex);
  const Graph *graph = find(graphs, handle);
  if (!graph || !count) return CUDA_ERROR_INVALID_VALUE;
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->ops.size();
  return CUDA_SUCCESS;
}

CUresult graph_instantiate(CUgraphExec *out, CUgraph handle, unsigned long long) {
  std::lock_guard lock(mutex);
  const Graph *graph = find(graphs, handle);
  if (!out || !graph) return CUDA_ERROR_INVALID_VALUE;
  auto *executable = new Graph(*graph);
  executables.insert(executable);
  *out = reinterpret_cast<CUgraphExec>(executable);
  return CUDA_SUCCESS;
}

CUresult graph_instantiate_v2(CUgraphExec *out, CUgraph handle, CUgraphNode *failed, char *log,
                              size_t bytes) {
  if (failed) *failed = nullptr;
  if (log && bytes) *log = 0;
  return graph_instantiate(out, handle, 0);
}

CUresult graph_instantiate_with_params(CUgraphExec *out, CUgraph handle,
                                       CUDA_GRAPH_INSTANTIATE_PARAMS *params) {
  if (!params) return CUDA_ERROR_INVALID_VALUE;
  const CUresult answer = graph_instantiate(out, handle, params->flags);
  params->hErrNode_out = nullptr;
  params->result_out = answer ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return answer;
}

CUresult graph_launch(CUgraphExec handle, CUstream stream_handle) {
  CUresult why;
  Stream *stream = resolve_stream(stream_handle, &why);
  if (!stream) return why;
  std::vector<Op> ops;
  {
    std::lock_guard lock(mutex);
    const Graph *graph = find(executables, handle);
    if (!graph) return CUDA_ERROR_INVALID_VALUE;
    ops = graph->ops;
  }
  for (Op &op : ops)
    if (CUresult answer = submit(*stream, op)) return answer;
  return CUDA_SUCCESS;
}

CUresult graph_upload(CUgraphExec handle, CUstream) {
  std::lock_guard lock(mutex);
  return find(executables, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult graph_destroy(CUgraph handle) {
  std::lock_guard lock(mutex);
  Graph *graph = find(graphs, handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  graphs.erase(graph);
  delete graph;
  return CUDA_SUCCESS;
}

CUresult graph_exec_destroy(CUgraphExec handle) {
  std::lock_guard lock(mutex);
  Graph *graph = find(executables, handle);
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  executables.erase(graph);
  delete graph;
  return CUDA_SUCCESS;
}

}  // namespace emulated

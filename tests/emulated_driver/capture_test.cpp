// Capture modes, what a capture forbids, graphs replayed after a remap.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "driver.h"

namespace {

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(cu().StreamIsCapturing(stream, &status) == CUDA_SUCCESS);
  return status;
}

void begin(CUstream stream, CUstreamCaptureMode mode) {
  REQUIRE(cu().StreamBeginCapture(stream, mode) == CUDA_SUCCESS);
  REQUIRE(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
}

CUresult end(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult answer = cu().StreamEndCapture(stream, &graph);
  if (graph) CHECK(cu().GraphDestroy(graph) == CUDA_SUCCESS);
  return answer;
}

CUresult elsewhere(CUcontext context, CUresult (*call)(CUevent), CUevent event,
                   CUstreamCaptureMode mode) {
  CUresult answer = CUDA_ERROR_UNKNOWN;
  std::thread thread([&] {
    CHECK(cu().CtxSetCurrent(context) == CUDA_SUCCESS);
    CHECK(cu().ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    answer = call(event);
  });
  thread.join();
  return answer;
}

CUresult query(CUevent event) { return cu().EventQuery(event); }

}  // namespace

TEST_CASE("a global capture is broken by another thread's unsafe call") {
  Session session;
  StreamHandle stream;
  EventHandle event;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(elsewhere(session.context, query, event, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  CHECK(elsewhere(session.context, query, event, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) ==
        CUDA_SUCCESS);
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(elsewhere(session.context, query, event, CU_STREAM_CAPTURE_MODE_GLOBAL) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("a thread-local capture concerns its thread only") {
  Session session;
  StreamHandle stream;
  EventHandle event;
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CHECK(elsewhere(session.context, query, event, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  {
    Mapped memory;  // address management is allowed
  }
  CUdeviceptr address = 0;
  CHECK(cu().MemAlloc(&address, 4096) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_CASE("a relaxed capture forbids nothing unsafe") {
  Session session;
  StreamHandle stream;
  EventHandle event;
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cu().EventQuery(event) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CHECK(cu().MemAlloc(&address, 4096) == CUDA_SUCCESS);
  CHECK(cu().MemFree(address) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
}

TEST_CASE("exchanging the thread's mode makes its own calls safe") {
  Session session;
  StreamHandle stream;
  EventHandle event;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cu().ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(cu().EventQuery(event) == CUDA_SUCCESS);
  CHECK(cu().ThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(end(stream) == CUDA_SUCCESS);
}

TEST_CASE("captured events, foreign events, the legacy stream") {
  Session session;
  StreamHandle stream, outside;
  EventHandle captured, foreign;
  CHECK(cu().EventRecord(foreign, outside) == CUDA_SUCCESS);
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cu().EventRecord(captured, stream) == CUDA_SUCCESS);
  CHECK(cu().EventQuery(captured) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(cu().EventSynchronize(captured) == CUDA_ERROR_CAPTURED_EVENT);
  CHECK(cu().StreamWaitEvent(stream, foreign, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  StreamHandle blocking(CU_STREAM_DEFAULT);
  begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cu().EventRecord(foreign, nullptr) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(end(blocking) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cu().StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_CASE("querying or synchronizing a capturing stream breaks it") {
  Session session;
  StreamHandle stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cu().StreamQuery(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(end(stream) == CUDA_ERROR_ILLEGAL_STATE);
}

TEST_CASE("forked streams must be joined") {
  Session session;
  Mapped memory;
  StreamHandle origin, fork;
  EventHandle out, back;
  for (const bool joined : {true, false}) {
    CAPTURE(joined);
    begin(origin, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    CHECK(cu().EventRecord(out, origin) == CUDA_SUCCESS);
    CHECK(cu().StreamWaitEvent(fork, out, 0) == CUDA_SUCCESS);
    CHECK(status_of(fork) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(end(fork) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    CHECK(cu().MemsetD8Async(memory.address, 1, 16, fork) == CUDA_SUCCESS);
    CHECK(cu().EventRecord(back, fork) == CUDA_SUCCESS);
    if (joined) CHECK(cu().StreamWaitEvent(origin, back, 0) == CUDA_SUCCESS);
    CHECK(end(origin) == (joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    CHECK(status_of(fork) == CU_STREAM_CAPTURE_STATUS_NONE);
  }
}

TEST_CASE("a capture ends in the thread that began it") {
  Session session;
  StreamHandle stream;
  begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUresult answer = CUDA_SUCCESS;
  std::thread thread([&] {
    CHECK(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
    answer = end(stream);
  });
  thread.join();
  CHECK(answer == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  CHECK(end(stream) == CUDA_SUCCESS);
}

TEST_CASE("a graph runs only when launched, and on what is mapped then") {
  Session session;
  Mapped memory;
  Pinned source(4096, 6), target(4096, 0);
  StreamHandle stream;
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data, 2048, stream) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8Async(memory.address + 2048, 9, 2048, stream) == CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoHAsync(target.data, memory.address, 4096, stream) == CUDA_SUCCESS);
  REQUIRE(cu().StreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cu().GraphInstantiateWithFlags(&executable, graph, 0) == CUDA_SUCCESS);
  CHECK(cu().GraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(target.data[0] == 0);
  for (int round = 0; round < 2; ++round) {
    std::memset(source.data, 60 + round, 4096);
    std::memset(target.data, 0, 4096);
    CHECK(cu().GraphLaunch(executable, stream) == CUDA_SUCCESS);
    CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(target.data[0] == 60 + round);
    CHECK(target.data[4095] == 9);
    memory.unmap();
    memory.map();
  }
  CHECK(cu().GraphExecDestroy(executable) == CUDA_SUCCESS);
}

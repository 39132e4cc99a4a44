// Order: streams, events, the legacy stream's barriers, default streams, sticky errors, bandwidth.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <atomic>
#include <chrono>

#include "driver.h"

namespace {

void record_time(void *counter) {
  static std::atomic<int> next{1};
  *static_cast<std::atomic<int> *>(counter) = next++;
}

void mark(CUstream stream, std::atomic<int> &when) {
  REQUIRE(cu().LaunchHostFunc(stream, record_time, &when) == CUDA_SUCCESS);
}

bool not_yet(const std::atomic<int> &when) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return when == 0;
}

unsigned long long id_of(CUstream stream) {
  static auto get_id = emulated_symbol<PFN_cuStreamGetId_v12000>("cuStreamGetId");
  unsigned long long id = 0;
  REQUIRE(get_id(stream, &id) == CUDA_SUCCESS);
  return id;
}

}  // namespace

TEST_CASE("a stream runs in order, and queries tell") {
  Session session;
  StreamHandle stream;
  Barrier barrier;
  EventHandle event;
  CHECK(cu().EventQuery(event) == CUDA_SUCCESS);
  barrier.hold(stream);
  std::atomic<int> first{0}, second{0};
  mark(stream, first);
  CHECK(cu().EventRecord(event, stream) == CUDA_SUCCESS);
  mark(stream, second);
  CHECK(cu().StreamQuery(stream) == CUDA_ERROR_NOT_READY);
  CHECK(cu().EventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(control().live().pending_operations == 4);
  barrier.open();
  CHECK(cu().EventSynchronize(event) == CUDA_SUCCESS);
  CHECK(first != 0);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(first < second);
  CHECK(cu().EventQuery(event) == CUDA_SUCCESS);
}

TEST_CASE("waiting for an event takes its state at the call") {
  Session session;
  StreamHandle one, two, three;
  EventHandle event;
  Barrier first, second;
  first.hold(one);
  CHECK(cu().EventRecord(event, one) == CUDA_SUCCESS);
  CHECK(cu().StreamWaitEvent(two, event, 0) == CUDA_SUCCESS);
  second.hold(three);
  CHECK(cu().EventRecord(event, three) == CUDA_SUCCESS);
  std::atomic<int> done{0};
  mark(two, done);
  CHECK(not_yet(done));
  first.open();
  CHECK(cu().StreamSynchronize(two) == CUDA_SUCCESS);
  CHECK(done != 0);
  CHECK(cu().EventQuery(event) == CUDA_ERROR_NOT_READY);
  second.open();
  CHECK(cu().EventSynchronize(event) == CUDA_SUCCESS);
}

TEST_CASE("the legacy stream is a barrier for blocking streams only") {
  Session session;
  StreamHandle blocking(CU_STREAM_DEFAULT), free_stream;
  Barrier barrier;
  std::atomic<int> in_blocking{0}, in_legacy{0}, in_free{0}, after{0};
  barrier.hold(blocking);
  mark(blocking, in_blocking);
  mark(nullptr, in_legacy);
  mark(free_stream, in_free);
  mark(blocking, after);
  CHECK(cu().StreamSynchronize(free_stream) == CUDA_SUCCESS);
  CHECK(in_free != 0);
  CHECK(not_yet(in_legacy));
  CHECK(cu().StreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  barrier.open();
  CHECK(cu().StreamSynchronize(blocking) == CUDA_SUCCESS);
  CHECK(in_blocking < in_legacy);
  CHECK(in_legacy < after);
}

TEST_CASE("blocking streams wait for the legacy stream") {
  Session session;
  StreamHandle blocking(CU_STREAM_DEFAULT), free_stream;
  Barrier barrier;
  std::atomic<int> in_blocking{0}, in_free{0}, in_thread{0};
  barrier.hold(CU_STREAM_LEGACY);
  mark(blocking, in_blocking);
  mark(free_stream, in_free);
  mark(CU_STREAM_PER_THREAD, in_thread);
  CHECK(cu().StreamSynchronize(free_stream) == CUDA_SUCCESS);
  CHECK(not_yet(in_blocking));
  CHECK(in_thread == 0);
  barrier.open();
  CHECK(cu().CtxSynchronize() == CUDA_SUCCESS);
  CHECK(in_blocking != 0);
  CHECK(in_thread != 0);
}

TEST_CASE("each thread has its default stream") {
  Session session;
  const unsigned long long mine = id_of(CU_STREAM_PER_THREAD);
  CHECK(mine == id_of(CU_STREAM_PER_THREAD));
  CHECK(mine != id_of(CU_STREAM_LEGACY));
  unsigned long long other = 0, null_stream = 0;
  auto thread_get_id = entry<PFN_cuStreamGetId_v12000>(
      "cuStreamGetId", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  CHECK(thread_get_id(nullptr, &null_stream) == CUDA_SUCCESS);
  CHECK(null_stream == mine);
  std::thread thread([&] {
    CHECK(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
    other = id_of(CU_STREAM_PER_THREAD);
  });
  thread.join();
  CHECK(other != 0);
  CHECK(other != mine);
  CHECK(control().live().streams == 0);
}

TEST_CASE("handles are used again, ids are not") {
  Session session;
  CUstream first = nullptr, second = nullptr;
  REQUIRE(cu().StreamCreate(&first, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  const unsigned long long id = id_of(first);
  REQUIRE(cu().StreamDestroy(first) == CUDA_SUCCESS);
  REQUIRE(cu().StreamCreate(&second, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(second == first);
  CHECK(id_of(second) != id);
  REQUIRE(cu().StreamDestroy(second) == CUDA_SUCCESS);
}

TEST_CASE("a stream destroyed with work pending finishes it") {
  Session session;
  std::atomic<int> done{0};
  Barrier barrier;
  CUstream stream = nullptr;
  REQUIRE(cu().StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  barrier.hold(stream);
  mark(stream, done);
  CHECK(cu().StreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(done == 0);
  CUstream other = nullptr;
  REQUIRE(cu().StreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(other != stream);
  CHECK(cu().StreamDestroy(other) == CUDA_SUCCESS);
  barrier.open();
  CHECK(cu().CtxSynchronize() == CUDA_SUCCESS);
  CHECK(done != 0);
}

TEST_CASE("pinned sources are read late, pageable ones at the call") {
  Session session;
  session.clean = false;
  Mapped memory;
  StreamHandle stream;
  Barrier barrier;
  std::vector<unsigned char> pageable(4096, 1);
  Pinned pinned(4096, 1), back(8192);
  barrier.hold(stream);
  CHECK(cu().MemcpyHtoDAsync(memory.address, pageable.data(), 4096, stream) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address + 4096, pinned.data, 4096, stream) == CUDA_SUCCESS);
  std::memset(pageable.data(), 2, 4096);
  std::memset(pinned.data, 2, 4096);
  barrier.open();
  CHECK(cu().MemcpyDtoHAsync(back.data, memory.address, 8192, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(back.data[0] == 1);
  CHECK(back.data[4096] == 2);
}

TEST_CASE("a copy over several handles") {
  Session session;
  Mapped memory(3);
  std::vector<unsigned char> source(memory.bytes), target(memory.bytes);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<unsigned char>(i * 7 + i / 4096);
  CHECK(cu().MemcpyHtoD(memory.address, source.data(), source.size()) == CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoH(target.data(), memory.address, target.size()) == CUDA_SUCCESS);
  CHECK(source == target);
  CHECK(cu().MemcpyDtoD(memory.address + 5, memory.address + kGranule + 3, kGranule) ==
        CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoH(target.data(), memory.address + 5, kGranule) == CUDA_SUCCESS);
  CHECK(std::memcmp(target.data(), source.data() + kGranule + 3, kGranule) == 0);
}

TEST_CASE("an illegal address sticks to the context") {
  Session session;
  StreamHandle stream;
  CUdeviceptr address = 0;
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8Async(address, 0, 16, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cu().CtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  size_t a, b;
  CHECK(cu().MemGetInfo(&a, &b) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_ERROR_ILLEGAL_ADDRESS);
  // A new primary context is a new start; what it left behind is reported.
  session.clean = false;
  CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  CHECK(control().misuse().find("leaked") != std::string::npos);
  REQUIRE(cu().DevicePrimaryCtxRetain(&session.context, 0) == CUDA_SUCCESS);
  REQUIRE(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
  stream.handle = nullptr;
  REQUIRE(cu().StreamCreate(&stream.handle, 0) == CUDA_SUCCESS);
}

TEST_CASE("memory without access is an illegal address") {
  Session session;
  session.clean = false;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle;
  const CUmemAllocationProp properties = device_memory();
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemMap(address, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8(address, 1, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  REQUIRE(cu().DevicePrimaryCtxRetain(&session.context, 0) == CUDA_SUCCESS);
  REQUIRE(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
  CHECK(cu().MemUnmap(address, kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
}

TEST_CASE("bandwidth and kernel time take time") {
  Session session{{"H2D_BANDWIDTH", "100000000"}};
  Mapped memory;
  Pinned source(1 * kMiB);
  StreamHandle one, two;
  EventHandle begin, end, other;
  CHECK(cu().EventRecord(begin, one) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data, source.bytes, one) == CUDA_SUCCESS);
  CHECK(cu().EventRecord(end, one) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address + kMiB, source.data, source.bytes, two) ==
        CUDA_SUCCESS);
  CHECK(cu().EventRecord(other, two) == CUDA_SUCCESS);
  CHECK(cu().CtxSynchronize() == CUDA_SUCCESS);
  float first_ms = 0, second_ms = 0;
  CHECK(cu().EventElapsedTime(&first_ms, begin, end) == CUDA_SUCCESS);
  CHECK(cu().EventElapsedTime(&second_ms, begin, other) == CUDA_SUCCESS);
  CHECK(std::max(first_ms, second_ms) >= 20.0f);
  CHECK(std::min(first_ms, second_ms) >= 10.0f);
}

TEST_CASE("freeing waits for what runs, mapping does not") {
  Session session;
  StreamHandle stream;
  Barrier barrier;
  barrier.hold(stream);
  std::atomic<int> done{0};
  mark(stream, done);
  Mapped memory;
  memory.unmap();
  CHECK(done == 0);
  CUdeviceptr plain = 0;
  CHECK(cu().MemAlloc(&plain, 4096) == CUDA_SUCCESS);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    barrier.open();
  });
  CHECK(cu().MemFree(plain) == CUDA_SUCCESS);
  CHECK(done != 0);
  opener.join();
}

TEST_CASE("many threads on many streams") {
  Session session;
  std::vector<std::thread> threads;
  Mapped memory(4);
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      if (cu().CtxSetCurrent(session.context) != CUDA_SUCCESS) ++wrong;
      CUstream stream;
      CUevent event;
      void *host = nullptr;
      if (cu().StreamCreate(&stream, 1) || cu().EventCreate(&event, 2) ||
          cu().MemHostAlloc(&host, 65536, 0))
        ++wrong;
      auto *bytes = static_cast<unsigned char *>(host);
      for (unsigned round = 0; round < 50; ++round) {
        std::memset(bytes, static_cast<int>(t * 50 + round), 65536);
        if (cu().MemcpyHtoDAsync(memory.address + t * kGranule, bytes, 65536, stream)) ++wrong;
        if (cu().EventRecord(event, stream) || cu().EventSynchronize(event)) ++wrong;
        std::memset(bytes, 0, 65536);
        if (cu().MemcpyDtoHAsync(bytes, memory.address + t * kGranule, 65536, stream)) ++wrong;
        if (cu().StreamSynchronize(stream)) ++wrong;
        if (bytes[65535] != static_cast<unsigned char>(t * 50 + round)) ++wrong;
      }
      if (cu().MemFreeHost(host) || cu().EventDestroy(event) || cu().StreamDestroy(stream)) ++wrong;
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
}

#include <cudaTypedefs.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/limits.h"
#include "tests/support/session.h"

using namespace support;
using sluice::kGiB;
using sluice::kMiB;

namespace {

template <typename Function>
Function driver_call(const char *name) {
  return reinterpret_cast<Function>(emulator_symbol(name));
}

// A caller of the driver beside sluice: streams, kernels' stand-ins (memsets), waits.
struct Caller {
  explicit Caller(sluice_device *device) {
    sluice_device_info info = SLUICE_DEVICE_INFO_INIT;
    sluice_device_info_get(device, &info);
    retain(&context, static_cast<CUdevice>(info.ordinal));
    set_current(context);
    ordinal = static_cast<CUdevice>(info.ordinal);
  }
  ~Caller() {
    set_current(nullptr);
    release(ordinal);
  }
  CUstream stream(unsigned flags = CU_STREAM_NON_BLOCKING) {
    CUstream made = nullptr;
    REQUIRE(create(&made, flags) == CUDA_SUCCESS);
    return made;
  }
  PFN_cuDevicePrimaryCtxRetain_v7000 retain =
      driver_call<PFN_cuDevicePrimaryCtxRetain_v7000>("cuDevicePrimaryCtxRetain");
  PFN_cuDevicePrimaryCtxRelease_v11000 release =
      driver_call<PFN_cuDevicePrimaryCtxRelease_v11000>("cuDevicePrimaryCtxRelease_v2");
  PFN_cuCtxSetCurrent_v4000 set_current = driver_call<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent");
  PFN_cuStreamCreate_v2000 create = driver_call<PFN_cuStreamCreate_v2000>("cuStreamCreate");
  PFN_cuStreamDestroy_v4000 destroy = driver_call<PFN_cuStreamDestroy_v4000>("cuStreamDestroy_v2");
  PFN_cuMemsetD8Async_v3020 fill = driver_call<PFN_cuMemsetD8Async_v3020>("cuMemsetD8Async");
  PFN_cuStreamSynchronize_v2000 synchronize =
      driver_call<PFN_cuStreamSynchronize_v2000>("cuStreamSynchronize");
  PFN_cuStreamQuery_v2000 query = driver_call<PFN_cuStreamQuery_v2000>("cuStreamQuery");
  PFN_cuLaunchHostFunc_v10000 host_function =
      driver_call<PFN_cuLaunchHostFunc_v10000>("cuLaunchHostFunc");
  PFN_cuStreamBeginCapture_v10010 begin_capture =
      driver_call<PFN_cuStreamBeginCapture_v10010>("cuStreamBeginCapture_v2");
  PFN_cuStreamEndCapture_v10000 end_capture =
      driver_call<PFN_cuStreamEndCapture_v10000>("cuStreamEndCapture");
  PFN_cuGraphDestroy_v10000 destroy_graph =
      driver_call<PFN_cuGraphDestroy_v10000>("cuGraphDestroy");
  CUcontext context = nullptr;
  CUdevice ordinal = 0;
};

// Keeps a stream busy until it is opened.
struct Gate {
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  static void wait(void *self) {
    auto *gate = static_cast<Gate *>(self);
    std::unique_lock lock(gate->mutex);
    gate->opened.wait(lock, [&] { return gate->open; });
  }
  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    opened.notify_all();
  }
};

struct Clean {
  Clean() { CHECK(fresh_driver()); }
  ~Clean() {
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
  }
};

uint64_t mapped_bytes() { return live().physical_bytes; }

}  // namespace

TEST_CASE("a buffer grows behind one address, and costs nothing before") {
  const Clean clean;
  Session session;
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, kGiB, &buffer) == SLUICE_OK);
  CHECK(mapped_bytes() == 0);
  const uint64_t address = sluice_buffer_address(buffer);
  for (const uint64_t bytes : {uint64_t{1}, 3 * kMiB, 3 * kMiB, 64 * kMiB, 700 * kMiB}) {
    REQUIRE(sluice_buffer_grow(buffer, bytes) == SLUICE_OK);
    CHECK(sluice_buffer_address(buffer) == address);
    CHECK(sluice_buffer_size(buffer) >= bytes);
    CHECK(sluice_buffer_size(buffer) < bytes + 2 * kMiB + 1);
    CHECK(mapped_bytes() == sluice_buffer_size(buffer));
  }
  CHECK(session.stats().device_waits == 0);
  CHECK(session.stats().stream_waits == 0);
  CHECK(sluice_buffer_grow(buffer, kGiB + 1) == SLUICE_INVALID_ARGUMENT);
  sluice_buffer_destroy(buffer);
}

TEST_CASE("handles are pooled by size, and trimmed") {
  const Clean clean;
  Session session;
  for (int round = 0; round < 3; ++round) {
    sluice_buffer *buffer = nullptr;
    REQUIRE(sluice_buffer_create(session.device, 32 * kMiB, &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, 32 * kMiB) == SLUICE_OK);
    sluice_buffer_destroy(buffer);
  }
  CHECK(session.stats().handles_created == 1);
  CHECK(session.stats().handles_reused == 2);
  CHECK(session.stats().vram_pooled_bytes == 32 * kMiB);
  uint64_t bytes = 0;
  CHECK(sluice_device_trim(session.device, &bytes) == SLUICE_OK);
  CHECK(bytes == 32 * kMiB);
  CHECK(mapped_bytes() == 0);
}

TEST_CASE("the cap holds at all times, live, and pooled memory of another size goes first") {
  const Clean clean;
  sluice_options options = emulated_options();
  options.vram_limit = 64 * kMiB;
  Session session(options);
  sluice_buffer *one = nullptr, *two = nullptr;
  REQUIRE(sluice_buffer_create(session.device, kGiB, &one) == SLUICE_OK);
  REQUIRE(sluice_buffer_create(session.device, kGiB, &two) == SLUICE_OK);
  CHECK(sluice_buffer_grow(one, 65 * kMiB) == SLUICE_LIMIT_REACHED);
  CHECK(last_error().find("--vram-limit") != std::string::npos);
  CHECK(sluice_buffer_size(one) == 0);
  CHECK(mapped_bytes() == 0);
  REQUIRE(sluice_buffer_grow(one, 40 * kMiB) == SLUICE_OK);
  CHECK(sluice_buffer_grow(two, 40 * kMiB) == SLUICE_LIMIT_REACHED);
  REQUIRE(sluice_buffer_shrink(one, 0) == SLUICE_OK);
  CHECK(session.stats().vram_pooled_bytes == 40 * kMiB);
  REQUIRE(sluice_buffer_grow(two, 60 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_device_set_vram_limit(session.device, 10 * kMiB) == SLUICE_OK);
  CHECK(sluice_buffer_grow(one, 2 * kMiB) == SLUICE_LIMIT_REACHED);
  CHECK(sluice_buffer_size(two) == 60 * kMiB);
  REQUIRE(sluice_buffer_shrink(two, 0) == SLUICE_OK);
  CHECK(mapped_bytes() == 0);  // above the lowered cap nothing is pooled
  REQUIRE(sluice_device_set_vram_limit(session.device, SLUICE_NO_LIMIT) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(one, 100 * kMiB) == SLUICE_OK);
  CHECK(live().peak_physical_bytes <= 100 * kMiB);
  sluice_buffer_destroy(one);
  sluice_buffer_destroy(two);
}

TEST_CASE("a refusal names what there is too little of") {
  const Clean clean;
  REQUIRE(fresh_driver("64MiB"));
  const auto grow = [](uint64_t limit, uint64_t headroom) {
    sluice_options options = emulated_options();
    options.vram_limit = limit;
    options.vram_headroom = headroom;
    Session session(options);
    sluice_buffer *buffer = nullptr;
    REQUIRE(sluice_buffer_create(session.device, kGiB, &buffer) == SLUICE_OK);
    sluice_buffer_grow(buffer, 66 * kMiB);
    const std::string text = last_error();
    CHECK(sluice_buffer_grow(buffer, 2 * kMiB) == SLUICE_OK);
    sluice_buffer_destroy(buffer);
    return text;
  };
  const auto says = [](const std::string &text, const char *status, const char *word) {
    CAPTURE(text);
    CHECK(text.find(status) == 0);
    CHECK(text.find(word) != std::string::npos);
  };
  says(grow(32 * kMiB, 0), "LIMIT_REACHED", "--vram-limit");
  says(grow(32 * kMiB, 16 * kMiB), "LIMIT_REACHED", "--vram-limit");
  says(grow(0, 16 * kMiB), "LIMIT_REACHED", "--vram-headroom");
  says(grow(0, 0), "OUT_OF_DEVICE_MEMORY", "all of the device's 64 MiB");
}

TEST_CASE("memory is given back only after the work that uses it, and nobody waits for that") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  Gate gate;
  CUstream stream = caller.stream();
  REQUIRE(caller.host_function(stream, Gate::wait, &gate) == CUDA_SUCCESS);
  REQUIRE(caller.fill(sluice_buffer_address(buffer), 7, 8 * kMiB, stream) == CUDA_SUCCESS);
  REQUIRE(sluice_buffer_use(buffer, stream) == SLUICE_OK);
  sluice_buffer_destroy(buffer);  // returns though the stream is held up
  CHECK(mapped_bytes() == 8 * kMiB);
  CHECK(session.stats().stream_waits == 0);
  gate.release();
  REQUIRE(caller.synchronize(stream) == CUDA_SUCCESS);
  CHECK(sluice_device_trim(session.device, nullptr) == SLUICE_OK);
  CHECK(mapped_bytes() == 0);
  CHECK(caller.destroy(stream) == CUDA_SUCCESS);
}

TEST_CASE("growing over a shrunk part waits for the work on that part, and for nothing else") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 2 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  Gate other_gate, gate;
  CUstream other = caller.stream(), stream = caller.stream();
  REQUIRE(caller.host_function(other, Gate::wait, &other_gate) == CUDA_SUCCESS);
  REQUIRE(caller.host_function(stream, Gate::wait, &gate) == CUDA_SUCCESS);
  REQUIRE(caller.fill(sluice_buffer_address(buffer) + 4 * kMiB, 1, kMiB, stream) == CUDA_SUCCESS);
  REQUIRE(sluice_buffer_use(buffer, stream) == SLUICE_OK);
  REQUIRE(sluice_buffer_shrink(buffer, kMiB) == SLUICE_OK);
  CHECK(sluice_buffer_size(buffer) == 2 * kMiB);
  CHECK(mapped_bytes() == 8 * kMiB);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.release();
  });
  REQUIRE(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  CHECK(session.stats().stream_waits >= 1);
  CHECK(session.stats().device_waits == 0);
  CHECK(caller.query(other) == CUDA_ERROR_NOT_READY);
  opener.join();
  other_gate.release();
  REQUIRE(caller.synchronize(other) == CUDA_SUCCESS);
  sluice_buffer_destroy(buffer);
  CHECK(caller.destroy(other) == CUDA_SUCCESS);
  CHECK(caller.destroy(stream) == CUDA_SUCCESS);
}

// Windows and WSL2 answer NOT_READY from cuMemSetAccess right after an unmapping.
TEST_CASE("not ready is tried again, a bounded number of times, and undone") {
  const Clean clean;
  Session session;
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(emulator::set()("SET_ACCESS_NOT_READY", "3") == 0);
  CHECK(sluice_buffer_grow(buffer, 2 * kMiB) == SLUICE_OK);
  CHECK(session.stats().access_retries == 3);
  REQUIRE(emulator::set()("SET_ACCESS_NOT_READY", "100") == 0);
  CHECK(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_DRIVER_ERROR);
  CHECK(last_error().find("cuMemSetAccess") != std::string::npos);
  CHECK(sluice_buffer_size(buffer) == 2 * kMiB);
  REQUIRE(emulator::set()("SET_ACCESS_NOT_READY", "0") == 0);
  CHECK(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
}

TEST_CASE("device memory that runs out names the GPU, and pooled memory is given up first") {
  const Clean clean;
  REQUIRE(fresh_driver("64MiB"));
  {
    Session session;
    sluice_buffer *one = nullptr, *two = nullptr;
    REQUIRE(sluice_buffer_create(session.device, kGiB, &one) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session.device, kGiB, &two) == SLUICE_OK);
    REQUIRE(sluice_device_set_vram_limit(session.device, SLUICE_NO_LIMIT) == SLUICE_OK);
    const sluice_status status = sluice_buffer_grow(one, 100 * kMiB);
    CHECK(status == SLUICE_OUT_OF_DEVICE_MEMORY);
    CHECK(last_error().find("GPU 0") != std::string::npos);
    REQUIRE(sluice_buffer_grow(one, 40 * kMiB) == SLUICE_OK);
    REQUIRE(sluice_buffer_shrink(one, 0) == SLUICE_OK);
    CHECK(sluice_buffer_grow(two, 60 * kMiB) == SLUICE_OK);
    sluice_buffer_destroy(one);
    sluice_buffer_destroy(two);
  }
}

// What a refused call had made stayed in the pool, and others found the device full.
TEST_CASE("a refused growth leaves the device as it was") {
  const Clean clean;
  REQUIRE(fresh_driver("64MiB"));
  Session session;
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, kGiB, &buffer) == SLUICE_OK);
  emulator::set()("FAIL", "cuMemSetAccess:1:999");
  CHECK(sluice_buffer_grow(buffer, 40 * kMiB) == SLUICE_DRIVER_ERROR);
  emulator::set()("FAIL", "");
  CHECK(session.stats().vram_bytes == 0);
  REQUIRE(sluice_device_set_vram_limit(session.device, 16 * kMiB) == SLUICE_OK);
  const uint64_t made = session.stats().handles_created;
  CHECK(sluice_buffer_grow(buffer, 40 * kMiB) == SLUICE_LIMIT_REACHED);
  CHECK(last_error().find("40 MiB more, with 0 bytes in use") != std::string::npos);
  CHECK(session.stats().handles_created == made);
  CHECK(sluice_buffer_grow(buffer, 16 * kMiB) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
}

TEST_CASE("where memory is in pieces, smaller handles are made") {
  const Clean clean;
  REQUIRE(fresh_driver("64MiB"));
  Session session;
  sluice_buffer *parts[3] = {};
  for (sluice_buffer *&part : parts) {
    REQUIRE(sluice_buffer_create(session.device, kGiB, &part) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(part, 20 * kMiB) == SLUICE_OK);
  }
  sluice_buffer_destroy(parts[0]);
  sluice_buffer_destroy(parts[2]);  // free: 20 MiB, then 24 MiB
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, kGiB, &buffer) == SLUICE_OK);
  CHECK(sluice_buffer_grow(buffer, 44 * kMiB) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
  sluice_buffer_destroy(parts[1]);
}

TEST_CASE("a stream that the driver doesn't know is named, and forgetting it is no error") {
  const Clean clean;
  REQUIRE(fresh_driver("64MiB"));
  Session session;
  const auto unknown = reinterpret_cast<void *>(uintptr_t{0x1230});
  uint64_t address = 0;
  CHECK(sluice_stream_forget(session.device, unknown) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_get(session.device, nullptr, 100, &address) == SLUICE_OK);
  CHECK(sluice_stream_forget(session.device, unknown) == SLUICE_OK);
  CHECK(sluice_cast_buffer_free_stream(session.device, unknown) == SLUICE_OK);
  CHECK(sluice_cast_buffer_get(session.device, unknown, 100, &address) == SLUICE_DRIVER_ERROR);
  CHECK(last_error().find("stream 0x1230") != std::string::npos);
}

TEST_CASE("a thousand cycles end as the first") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  sluice_emulated_live first{};
  for (int cycle = 0; cycle < 1000; ++cycle) {
    sluice_buffer *buffer = nullptr;
    REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, 4 * kMiB) == SLUICE_OK);
    REQUIRE(sluice_buffer_use(buffer, nullptr) == SLUICE_OK);
    sluice_buffer_destroy(buffer);
    REQUIRE(sluice_stream_synchronize(session.device, nullptr) == SLUICE_OK);
    REQUIRE(sluice_device_trim(session.device, nullptr) == SLUICE_OK);
    if (cycle == 0) first = live();
  }
  const sluice_emulated_live last = live();
  CHECK(last.reservations == first.reservations);
  CHECK(last.physical_handles == first.physical_handles);
  CHECK(last.events == first.events);
  CHECK(last.mappings == first.mappings);
}

TEST_CASE("each stream has scratch of its own, which grows and stays where it is") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  CUstream one = caller.stream(), two = caller.stream();
  uint64_t a = 0, b = 0, again = 0;
  REQUIRE(sluice_cast_buffer_get(session.device, one, 1000, &a) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_get(session.device, two, 1000, &b) == SLUICE_OK);
  CHECK(a != b);
  REQUIRE(sluice_cast_buffer_get(session.device, one, 9 * kMiB, &again) == SLUICE_OK);
  CHECK(again == a);
  const uint64_t calls = emulator::calls()("cuMemMap");
  REQUIRE(sluice_cast_buffer_get(session.device, one, 8 * kMiB, &again) == SLUICE_OK);
  CHECK(emulator::calls()("cuMemMap") == calls);
  CHECK(session.stats().stream_waits == 0);
  CHECK(sluice_cast_buffer_get(session.device, one, 0, &again) == SLUICE_INVALID_ARGUMENT);
  CHECK(again == 0);
  Gate gate;
  REQUIRE(caller.host_function(one, Gate::wait, &gate) == CUDA_SUCCESS);
  REQUIRE(caller.fill(a, 3, 9 * kMiB, one) == CUDA_SUCCESS);
  REQUIRE(sluice_stream_forget(session.device, one) == SLUICE_OK);
  CHECK(sluice_stream_forget(session.device, one) == SLUICE_OK);
  REQUIRE(caller.destroy(one) == CUDA_SUCCESS);
  gate.release();
  // A new stream may get the old handle; it is another stream all the same.
  CUstream three = caller.stream();
  uint64_t c = 0;
  REQUIRE(sluice_cast_buffer_get(session.device, three, 1000, &c) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_free_stream(session.device, two) == SLUICE_OK);
  CHECK(caller.destroy(two) == CUDA_SUCCESS);
  CHECK(sluice_stream_forget(session.device, three) == SLUICE_OK);
  CHECK(caller.destroy(three) == CUDA_SUCCESS);
}

TEST_CASE("default streams: NULL and legacy are one, each thread has its own per-thread one") {
  const Clean clean;
  Session session;
  uint64_t null = 0, legacy = 0, mine = 0, other = 0;
  REQUIRE(sluice_cast_buffer_get(session.device, nullptr, 10, &null) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_get(session.device, CU_STREAM_LEGACY, 10, &legacy) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_get(session.device, CU_STREAM_PER_THREAD, 10, &mine) == SLUICE_OK);
  std::thread([&] {
    REQUIRE(sluice_cast_buffer_get(session.device, CU_STREAM_PER_THREAD, 10, &other) == SLUICE_OK);
  }).join();
  CHECK(null == legacy);
  CHECK(mine != null);
  CHECK(mine != other);
}

// Thread ids of the system come again; a new thread must not be taken for one that has ended.
TEST_CASE("per-thread streams of threads that ended") {
  const Clean clean;
  Session session;
  std::vector<uint64_t> scratch(8);
  for (uint64_t &address : scratch)
    std::thread([&] {
      REQUIRE(sluice_cast_buffer_get(session.device, CU_STREAM_PER_THREAD, 10, &address) ==
              SLUICE_OK);
    }).join();
  std::sort(scratch.begin(), scratch.end());
  CHECK(std::adjacent_find(scratch.begin(), scratch.end()) == scratch.end());
}

// Growing over a part that waits is behind that part's work, not behind what was queued later.
TEST_CASE("growing over a shrunk part doesn't wait for later work") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  CUstream stream = caller.stream(), later = caller.stream();
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 2 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  Gate gate, later_gate;
  REQUIRE(caller.host_function(stream, Gate::wait, &gate) == CUDA_SUCCESS);
  REQUIRE(sluice_buffer_use(buffer, stream) == SLUICE_OK);
  REQUIRE(sluice_buffer_shrink(buffer, 2 * kMiB) == SLUICE_OK);
  REQUIRE(caller.host_function(later, Gate::wait, &later_gate) == CUDA_SUCCESS);
  REQUIRE(sluice_buffer_use(buffer, later) == SLUICE_OK);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    gate.release();
  });
  // Opened in the end whatever happens, so that a wait for it shows as a failure, not as a hang.
  std::thread rescuer([&] {
    std::unique_lock lock(later_gate.mutex);
    later_gate.opened.wait_for(lock, std::chrono::seconds(20), [&] { return later_gate.open; });
    lock.unlock();
    later_gate.release();
  });
  CHECK(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  CHECK(caller.query(later) == CUDA_ERROR_NOT_READY);
  opener.join();
  later_gate.release();
  rescuer.join();
  REQUIRE(caller.synchronize(later) == CUDA_SUCCESS);
  sluice_buffer_destroy(buffer);
  CHECK(caller.destroy(stream) == CUDA_SUCCESS);
  CHECK(caller.destroy(later) == CUDA_SUCCESS);
}

// The event that a shrunk part waits for is never recorded again for later work.
TEST_CASE("a shrunk part comes back while its stream is kept busy") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  CUstream stream = caller.stream();
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 2 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_buffer_use(buffer, stream) == SLUICE_OK);
  REQUIRE(sluice_buffer_shrink(buffer, 2 * kMiB) == SLUICE_OK);
  Gate gate;
  REQUIRE(caller.host_function(stream, Gate::wait, &gate) == CUDA_SUCCESS);
  REQUIRE(sluice_buffer_use(buffer, stream) == SLUICE_OK);
  REQUIRE(sluice_device_trim(session.device, nullptr) == SLUICE_OK);
  CHECK(mapped_bytes() == 2 * kMiB);
  gate.release();
  REQUIRE(caller.synchronize(stream) == CUDA_SUCCESS);
  sluice_buffer_destroy(buffer);
  CHECK(caller.destroy(stream) == CUDA_SUCCESS);
}

TEST_CASE("a capturing stream is refused where a call could not be captured") {
  const Clean clean;
  Session session;
  Caller caller(session.device);
  CUstream stream = caller.stream();
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 8 * kMiB, &buffer) == SLUICE_OK);
  uint64_t scratch = 0, again = 0;
  REQUIRE(sluice_cast_buffer_get(session.device, stream, 100, &scratch) == SLUICE_OK);
  REQUIRE(caller.begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(sluice_cast_buffer_get(session.device, stream, 100, &again) == SLUICE_OK);
  CHECK(again == scratch);
  CHECK(sluice_cast_buffer_get(session.device, stream, 8 * kMiB, &again) ==
        SLUICE_STREAM_CAPTURING);
  CHECK(sluice_buffer_use(buffer, stream) == SLUICE_STREAM_CAPTURING);
  CHECK(sluice_stream_forget(session.device, stream) == SLUICE_STREAM_CAPTURING);
  // Slow paths on this and other threads leave a GLOBAL capture alone.
  CHECK(sluice_buffer_grow(buffer, 4 * kMiB) == SLUICE_OK);
  std::thread([&] { CHECK(sluice_buffer_grow(buffer, 8 * kMiB) == SLUICE_OK); }).join();
  CUgraph graph = nullptr;
  CHECK(caller.end_capture(stream, &graph) == CUDA_SUCCESS);
  CHECK(graph != nullptr);
  if (graph) caller.destroy_graph(graph);
  sluice_buffer_destroy(buffer);
  CHECK(sluice_stream_forget(session.device, stream) == SLUICE_OK);
  CHECK(caller.destroy(stream) == CUDA_SUCCESS);
}

TEST_CASE("many threads grow, use, shrink and destroy") {
  const Clean clean;
  sluice_options options = emulated_options();
  options.vram_limit = 96 * kMiB;
  Session session(options);
  std::vector<std::thread> threads;
  for (unsigned seed = 1; seed <= 4; ++seed)
    threads.emplace_back([&, seed] {
      unsigned state = seed;
      for (int round = 0; round < 60; ++round) {
        sluice_buffer *buffer = nullptr;
        REQUIRE(sluice_buffer_create(session.device, 32 * kMiB, &buffer) == SLUICE_OK);
        for (int step = 0; step < 6; ++step) {
          state = state * 1664525u + 1013904223u;
          const uint64_t bytes = (state >> 8) % (32 * kMiB);
          switch (state >> 30) {
            case 0:
              CHECK(sluice_buffer_use(buffer, nullptr) == SLUICE_OK);
              break;
            case 1:
              CHECK(sluice_buffer_shrink(buffer, bytes) == SLUICE_OK);
              break;
            default: {
              const sluice_status status = sluice_buffer_grow(buffer, bytes);
              CHECK((status == SLUICE_OK || status == SLUICE_LIMIT_REACHED));
            }
          }
        }
        sluice_buffer_destroy(buffer);
      }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(live().peak_physical_bytes <= 96 * kMiB);
  CHECK(session.stats().vram_peak_bytes <= 96 * kMiB);
}

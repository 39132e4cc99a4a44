// Each kind of misuse, caught: in log mode by its text, in abort mode by the end of a child
// process.
#define DOCTEST_CONFIG_IMPLEMENT
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

extern char **environ;

namespace {

// A session in which exactly one misuse is to be seen; its text must contain the given words.
struct Expect {
  Session &session;
  std::string words;
  ~Expect() {
    session.clean = false;
    CHECK(control().misuse_count() == 1);
    CHECK_MESSAGE(control().misuse().find(words) != std::string::npos, control().misuse());
  }
};

CUresult release_unpaired(CUdeviceptr address, size_t bytes) {
  return cu().MemUnmap(address, bytes);
}

void leak_a_stream() {
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  cu().Init(0);
  cu().DevicePrimaryCtxRetain(&context, 0);
  cu().CtxSetCurrent(context);
  cu().StreamCreate(&stream, 1);
}

void release_twice() {
  leak_a_stream();
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = device_memory();
  cu().MemCreate(&handle, kGranule, &properties, 0);
  cu().MemRelease(handle);
  cu().MemRelease(handle);
  _exit(0);
}

std::string self() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, n > 0 ? static_cast<size_t>(n) : 0);
}

// Runs this program as a child that misuses the driver; true when it was ended by abort().
bool child_aborts(const char *what) {
  const std::string program = self();
  const char *arguments[] = {program.c_str(), "--child", what, nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  REQUIRE(posix_spawn(&pid, program.c_str(), &actions, nullptr, const_cast<char **>(arguments),
                      environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

int run_child(const std::string &what) {
  setenv("SLUICE_EMULATED_MEMORY", "64MiB", 1);
  setenv("SLUICE_EMULATED_MISUSE", what == "exit-log" ? "log" : "abort", 1);
  if (what == "exit-quiet") setenv("SLUICE_EMULATED_LEAKS", "release", 1);
  if (what == "twice") release_twice();
  leak_a_stream();
  return 0;
}

}  // namespace

TEST_CASE("unmapped while a copy is queued") {
  Session session;
  Expect expect{session, "is unmapped while a copy"};
  Mapped memory;
  Pinned source(4096, 1);
  StreamHandle stream;
  Barrier barrier;
  barrier.hold(stream);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data, 4096, stream) == CUDA_SUCCESS);
  memory.unmap();
  memory.map();
  barrier.open();
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("unmapped while a memset is queued") {
  Session session;
  Expect expect{session, "is unmapped while a memset"};
  Mapped memory;
  StreamHandle stream;
  Barrier barrier;
  barrier.hold(stream);
  CHECK(cu().MemsetD8Async(memory.address, 0, 10, stream) == CUDA_SUCCESS);
  CHECK(release_unpaired(memory.address, memory.bytes) == CUDA_SUCCESS);
  memory.map();
  barrier.open();
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("unmapped while a kernel is queued") {
  Session session;
  Expect expect{session, "is unmapped while a kernel"};
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cu().ModuleLoadData(&module, "sluice_kernels_v1") == CUDA_SUCCESS);
  REQUIRE(cu().ModuleGetFunction(&function, module, "sluice_cast") == CUDA_SUCCESS);
  Mapped memory, target;
  StreamHandle stream;
  Barrier barrier;
  barrier.hold(stream);
  uint64_t from = memory.address, to = target.address, n = 16;
  uint32_t source_type = 0, target_type = 1;
  void *arguments[] = {&from, &to, &n, &source_type, &target_type};
  CHECK(cu().LaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, nullptr) ==
        CUDA_SUCCESS);
  memory.unmap();
  memory.map();
  barrier.open();
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cu().ModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("unmapping other memory is no misuse, nor is it after the event was seen") {
  Session session;
  Mapped memory, other;
  StreamHandle stream;
  EventHandle event;
  Barrier barrier;
  CHECK(cu().MemsetD8Async(memory.address, 0, 10, stream) == CUDA_SUCCESS);
  CHECK(cu().EventRecord(event, stream) == CUDA_SUCCESS);
  barrier.hold(stream);
  other.unmap();
  CHECK(cu().EventSynchronize(event) == CUDA_SUCCESS);
  memory.unmap();
  barrier.open();
}

TEST_CASE("unregistered while a copy is queued") {
  Session session;
  Expect expect{session, "is unregistered while a copy"};
  Mapped memory;
  std::vector<char> source(8192);
  StreamHandle stream;
  Barrier barrier;
  REQUIRE(cu().MemHostRegister(source.data(), source.size(), 0) == CUDA_SUCCESS);
  barrier.hold(stream);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data(), 4096, stream) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(source.data()) == CUDA_SUCCESS);
  barrier.open();
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
}

TEST_CASE("freed in one stream's order while another stream uses it") {
  Session session;
  Expect expect{session, "is freed while a memset"};
  StreamHandle one, two;
  Barrier barrier;
  CUdeviceptr memory = 0, again = 0;
  REQUIRE(cu().MemAllocAsync(&memory, 4096, one) == CUDA_SUCCESS);
  barrier.hold(two);
  CHECK(cu().MemsetD8Async(memory, 0, 4096, two) == CUDA_SUCCESS);
  CHECK(cu().MemFreeAsync(memory, one) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(one) == CUDA_SUCCESS);
  CHECK(cu().MemAlloc(&again, 4096) == CUDA_SUCCESS);
  CHECK(again == memory);
  barrier.open();
  CHECK(cu().StreamSynchronize(two) == CUDA_SUCCESS);
  CHECK(cu().MemFree(again) == CUDA_SUCCESS);
}

TEST_CASE("a pinned source is overwritten before its copy ran") {
  Session session;
  Expect expect{session, "was overwritten before it ran"};
  Mapped memory;
  Pinned source(64 * 1024, 1);
  StreamHandle stream;
  Barrier barrier;
  barrier.hold(stream);
  EventHandle event;
  StreamHandle copier;
  CHECK(cu().EventRecord(event, stream) == CUDA_SUCCESS);
  barrier
      .open();  // a pending host function may write anything: only after it is the source sampled
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  REQUIRE(control().set("H2D_BANDWIDTH", "1000000") == 0);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data, 32 * 1024, copier) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address, source.data + 32 * 1024, 32 * 1024, copier) ==
        CUDA_SUCCESS);
  std::memset(source.data + 32 * 1024, 2, 32 * 1024);
  CHECK(cu().StreamSynchronize(copier) == CUDA_SUCCESS);
}

TEST_CASE("a queued writer between is no misuse") {
  Session session{{"D2H_BANDWIDTH", "1000000"}};
  Mapped memory;
  Pinned buffer(16 * 1024, 1);
  StreamHandle stream;
  CHECK(cu().MemsetD8(memory.address, 7, 16 * 1024) == CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoHAsync(buffer.data, memory.address, 16 * 1024, stream) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address + kMiB, buffer.data, 16 * 1024, stream) ==
        CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  unsigned char byte = 0;
  CHECK(cu().MemcpyDtoH(&byte, memory.address + kMiB, 1) == CUDA_SUCCESS);
  CHECK(byte == 7);
}

TEST_CASE("a physical handle is released twice") {
  Session session;
  Expect expect{session, "cuMemRelease"};
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = device_memory();
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("addresses are freed twice") {
  Session session;
  Expect expect{session, "cuMemAddressFree"};
  CUdeviceptr address = 0;
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an allocation is freed twice") {
  Session session;
  Expect expect{session, "cuMemFree "};
  CUdeviceptr address = 0;
  REQUIRE(cu().MemAlloc(&address, 64) == CUDA_SUCCESS);
  CHECK(cu().MemFree(address) == CUDA_SUCCESS);
  CHECK(cu().MemFree(address) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("memory is unregistered twice") {
  Session session;
  Expect expect{session, "cuMemHostUnregister"};
  std::vector<char> memory(4096);
  REQUIRE(cu().MemHostRegister(memory.data(), memory.size(), 0) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(memory.data()) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(memory.data()) == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_CASE("a call with no context") {
  Session session;
  Expect expect{session, "cuMemAlloc is called with no current context"};
  CHECK(cu().CtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CUdeviceptr address = 0;
  CHECK(cu().MemAlloc(&address, 64) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
}

TEST_CASE("a call from a host function") {
  Session session;
  Expect expect{session, "cuCtxSynchronize is called from a host function"};
  StreamHandle stream;
  CUresult answer = CUDA_SUCCESS;
  CHECK(cu().LaunchHostFunc(
            stream, [](void *out) { *static_cast<CUresult *>(out) = cu().CtxSynchronize(); },
            &answer) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(answer == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("a copy crosses two registrations") {
  Session session;
  Expect expect{session, "crosses the edge of a host registration"};
  Mapped memory;
  std::vector<char> host(65536);
  StreamHandle stream;
  REQUIRE(cu().MemHostRegister(host.data(), 32768, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemHostRegister(host.data() + 32768, 32768, 0) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoDAsync(memory.address, host.data() + 16384, 32768, stream) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemcpyHtoDAsync(memory.address, host.data() + 32768, 32768, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(host.data()) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(host.data() + 32768) == CUDA_SUCCESS);
}

TEST_CASE("a copy is half registered") {
  Session session;
  Expect expect{session, "crosses the edge of a host registration"};
  Mapped memory;
  std::vector<char> host(65536);
  REQUIRE(cu().MemHostRegister(host.data() + 32768, 32768, 0) == CUDA_SUCCESS);
  CHECK(cu().MemcpyHtoD(memory.address, host.data() + 16384, 32768) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemHostUnregister(host.data() + 32768) == CUDA_SUCCESS);
}

TEST_CASE("registrations overlap") {
  Session session;
  Expect expect{session, "overlaps memory that is pinned already"};
  std::vector<char> host(65536);
  REQUIRE(cu().MemHostRegister(host.data(), 32768, 0) == CUDA_SUCCESS);
  CHECK(cu().MemHostRegister(host.data() + 16384, 32768, 0) ==
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(cu().MemHostUnregister(host.data()) == CUDA_SUCCESS);
}

TEST_CASE("a destroyed stream is used") {
  Session session;
  Expect expect{session, "a destroyed stream is used"};
  CUstream stream = nullptr;
  REQUIRE(cu().StreamCreate(&stream, 0) == CUDA_SUCCESS);
  CHECK(cu().StreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cu().StreamQuery(stream) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST_CASE("a destroyed event is used") {
  Session session;
  Expect expect{session, "a destroyed event is used"};
  CUevent event = nullptr;
  REQUIRE(cu().EventCreate(&event, 0) == CUDA_SUCCESS);
  CHECK(cu().EventDestroy(event) == CUDA_SUCCESS);
  CHECK(cu().EventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("handles leak at the last release of the primary context") {
  Session session;
  Expect expect{session,
                "leaked at the last release of the primary context: 1 address reservation, "
                "1 physical handle, 1 host allocation, 1 stream, 1 event"};
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = device_memory();
  CUstream stream = nullptr;
  CUevent event = nullptr;
  void *host = nullptr;
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().StreamCreate(&stream, 0) == CUDA_SUCCESS);
  REQUIRE(cu().EventCreate(&event, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemHostAlloc(&host, 4096, 0) == CUDA_SUCCESS);
  CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  session.release = false;
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
}

TEST_CASE("abort mode ends the process, at once and at exit") {
  CHECK(child_aborts("twice"));
  CHECK(child_aborts("exit"));
  CHECK_FALSE(child_aborts("exit-quiet"));
  CHECK_FALSE(child_aborts("exit-log"));
}

int main(int argc, char **argv) {
  if (argc == 3 && std::string(argv[1]) == "--child") return run_child(argv[2]);
  doctest::Context context(argc, argv);
  return context.run();
}

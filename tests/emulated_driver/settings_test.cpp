// Settings: faults, absent features, limits, host access, accounting across processes, faulting
// sources.
#define DOCTEST_CONFIG_IMPLEMENT
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

extern char **environ;

namespace {

std::string self() {
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return std::string(path, n > 0 ? static_cast<size_t>(n) : 0);
}

std::string shared_name() {
  return "test-" + std::to_string(getppid()) + "-" + std::to_string(getpid());
}

// Runs this program as a child; its status.
int child(const char *what, const std::string &argument = "") {
  const std::string program = self();
  const char *arguments[] = {program.c_str(), "--child", what, argument.c_str(), nullptr};
  pid_t pid = 0;
  REQUIRE(posix_spawn(&pid, program.c_str(), nullptr, nullptr, const_cast<char **>(arguments),
                      environ) == 0);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return status;
}

CUdeviceptr start_and_allocate(size_t bytes) {
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  if (cu().Init(0) || cu().DevicePrimaryCtxRetain(&context, 0) || cu().CtxSetCurrent(context))
    return 0;
  return cu().MemAlloc(&address, bytes) ? 0 : address;
}

int run_child(const std::string &what, const std::string &argument) {
  setenv("SLUICE_EMULATED_MEMORY", "64MiB", 1);
  if (what == "shared") {
    // Holds memory while it dies without tidying up.
    setenv("SLUICE_EMULATED_SHARED", argument.c_str(), 1);
    if (!start_and_allocate(40 * kMiB)) _exit(3);
    kill(getpid(), SIGKILL);
  }
  if (what == "shared-probe") {
    setenv("SLUICE_EMULATED_SHARED", argument.c_str(), 1);
    size_t free_bytes = 0, total = 0;
    if (!start_and_allocate(4096) || cu().MemGetInfo(&free_bytes, &total)) _exit(3);
    _exit(start_and_allocate(40 * kMiB) ? 0 : free_bytes < 40 * kMiB ? 1 : 4);
  }
  if (what == "dereference") {
    signal(SIGSEGV, SIG_DFL);
    const CUdeviceptr address = start_and_allocate(4096);
    _exit(*reinterpret_cast<volatile char *>(address) == 0 ? 0 : 1);
  }
  return 2;
}

}  // namespace

TEST_CASE("the k-th call fails and does nothing") {
  Session session;
  REQUIRE(control().arm_fault("cuMemAlloc:2:2") == 0);
  CUdeviceptr first = 0, second = 0;
  CHECK(cu().MemAlloc(&first, 64) == CUDA_SUCCESS);
  CHECK(cu().MemAlloc(&second, 64) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(second == 0);
  CHECK(control().live().device_allocations == 1);
  CHECK(cu().MemAlloc(&second, 64) == CUDA_SUCCESS);
  CHECK(control().faults_fired() == 1);
  CHECK(control().calls("cuMemAlloc") == 3);
  CHECK(cu().MemFree(first) == CUDA_SUCCESS);
  CHECK(cu().MemFree(second) == CUDA_SUCCESS);
}

TEST_CASE("faults of any call, in a row, forever") {
  Session session;
  int count = 0;
  REQUIRE(control().arm_fault("*:3:999") == 0);
  CHECK(cu().DeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(cu().CtxSynchronize() == CUDA_SUCCESS);
  CHECK(cu().DeviceGetCount(&count) == CUDA_ERROR_UNKNOWN);
  CHECK(cu().DeviceGetCount(&count) == CUDA_SUCCESS);
  REQUIRE(control().set("FAIL", "cuDeviceGetCount:1:3:2,cuCtxSynchronize:1:700:forever") == 0);
  CHECK(cu().DeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cu().DeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cu().DeviceGetCount(&count) == CUDA_SUCCESS);
  for (int i = 0; i < 3; ++i) CHECK(cu().CtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
  control().disarm_faults();
  CHECK(cu().CtxSynchronize() == CUDA_SUCCESS);
  for (const char *bad :
       {"", "cuInit", "cuInit:0:1", "cuInit:1:x", "cuInit:1:1:never", ":1:1", "cuInit:1:5000"})
    CHECK(control().arm_fault(bad) == -1);
}

TEST_CASE("cuMemSetAccess is not ready at first") {
  Session session;
  Mapped memory;
  REQUIRE(control().set("SET_ACCESS_NOT_READY", "2") == 0);
  CHECK(make_accessible(memory.address, memory.bytes) == CUDA_ERROR_NOT_READY);
  CHECK(make_accessible(memory.address, memory.bytes) == CUDA_ERROR_NOT_READY);
  CHECK(make_accessible(memory.address, memory.bytes) == CUDA_SUCCESS);
}

TEST_CASE("absent entry points and features") {
  Session session{
      {"ABSENT", "vmm,memcpy_batch,read_only_host_register,cuStreamGetPriority,host_vmm"}};
  int value = 1;
  CHECK(entry<void *>("cuMemcpyBatchAsync", 13000) == nullptr);
  CHECK(entry<void *>("cuStreamGetPriority", 13000) == nullptr);
  CHECK(entry<void *>("cuStreamGetId", 13000) != nullptr);
  for (const int attribute : {102, 113, 141, 145}) {
    CHECK(cu().DeviceGetAttribute(&value, static_cast<CUdevice_attribute>(attribute), 0) ==
          CUDA_SUCCESS);
    CHECK(value == 0);
  }
  CUdeviceptr address = 0;
  CHECK(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  std::vector<char> host(4096);
  CHECK(cu().MemHostRegister(host.data(), 4096, CU_MEMHOSTREGISTER_READ_ONLY) ==
        CUDA_ERROR_NOT_SUPPORTED);
  REQUIRE(control().set("ABSENT", "") == 0);
  CHECK(entry<void *>("cuMemcpyBatchAsync", 13000) != nullptr);
}

TEST_CASE("the limit on pinned memory") {
  Session session{{"PINNED_LIMIT", "1MiB"}};
  void *first = nullptr, *second = nullptr;
  CHECK(cu().MemHostAlloc(&first, kMiB, 0) == CUDA_SUCCESS);
  CHECK(cu().MemHostAlloc(&second, 4096, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  std::vector<char> host(4096);
  CHECK(cu().MemHostRegister(host.data(), 4096, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cu().MemFreeHost(first) == CUDA_SUCCESS);
  CHECK(cu().MemHostRegister(host.data(), 4096, 0) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(host.data()) == CUDA_SUCCESS);
  CHECK(control().live().peak_pinned_bytes == kMiB);
}

TEST_CASE("latency of calls") {
  Session session{{"CALL_LATENCY", "20000000"}};
  int count = 0;
  timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  CHECK(cu().DeviceGetCount(&count) == CUDA_SUCCESS);
  clock_gettime(CLOCK_MONOTONIC, &end);
  CHECK((end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec >= 20000000);
  REQUIRE(control().set("CALL_LATENCY", "0") == 0);
}

TEST_CASE("values that can't be read are refused") {
  CHECK(control().set("MEMORY", "much") == -1);
  CHECK(control().set("NO_SUCH", "1") == -1);
  CHECK(control().set("VERSION", "-1") == -1);
  CHECK(control().set("VERSION", "12345") == -1);
  CHECK(control().set("GRANULARITY", "3MiB") == -1);
  CHECK(control().set("MISUSE", "maybe") == -1);
  CHECK(control().set("ABSENT", "vmm,cuNoSuchCall") == -1);
  CHECK(control().set("FAIL", "cuNoSuchCall:1:2") == -1);
  CHECK(control().set("ABSENT", "vmm,cuMemcpyBatchAsync") == 0);
  CHECK(control().set("ABSENT", "") == 0);
}

TEST_CASE("device memory that the machine has no addresses for is an error, not an end") {
  REQUIRE(control().reset() == 0);
  REQUIRE(control().set("MEMORY", "1000TiB") == 0);
  CHECK(cu().Init(0) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(control().set("MEMORY", "64MiB") == 0);
  CHECK(cu().Init(0) == CUDA_SUCCESS);
}

TEST_CASE("host access") {
  Session session{{"HOST_ACCESS", "1"}};
  Mapped memory(2);
  CHECK(cu().MemsetD8(memory.address, 3, memory.bytes) == CUDA_SUCCESS);
  auto *bytes = reinterpret_cast<unsigned char *>(memory.address);
  CHECK(bytes[kGranule + 5] == 3);
  bytes[kGranule + 6] = 4;
  unsigned char byte = 0;
  CHECK(cu().MemcpyDtoH(&byte, memory.address + kGranule + 6, 1) == CUDA_SUCCESS);
  CHECK(byte == 4);
  CUdeviceptr plain = 0;
  CHECK(cu().MemAlloc(&plain, 64) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8(plain, 5, 64) == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<unsigned char *>(plain) == 5);
  CHECK(cu().MemFree(plain) == CUDA_SUCCESS);
}

TEST_CASE("without host access a dereference faults") {
  const int status = child("dereference");
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
}

TEST_CASE("the alias shows device memory") {
  Session session;
  Mapped memory;
  CHECK(cu().MemsetD8(memory.address, 6, memory.bytes) == CUDA_SUCCESS);
  auto *bytes = static_cast<unsigned char *>(control().host_alias(memory.address + 7, 100));
  REQUIRE(bytes != nullptr);
  CHECK(bytes[99] == 6);
  CHECK(control().host_alias(memory.address + memory.bytes - 1, 2) == nullptr);
}

TEST_CASE("poison and pretouch") {
  {
    Session session{{"POISON", "1"}};
    CUdeviceptr memory = 0;
    unsigned char byte = 0;
    CHECK(cu().MemAlloc(&memory, 64) == CUDA_SUCCESS);
    CHECK(cu().MemcpyDtoH(&byte, memory + 63, 1) == CUDA_SUCCESS);
    CHECK(byte == 0xA5);
    CHECK(cu().MemFree(memory) == CUDA_SUCCESS);
  }
  Session session{{"PRETOUCH", "16MiB"}};
  Mapped memory;
  CHECK(cu().MemsetD8(memory.address, 1, memory.bytes) == CUDA_SUCCESS);
}

TEST_CASE("a host source that faults is an error, not a dead process") {
  Session session;
  session.clean = false;
  CUdeviceptr memory = 0;
  REQUIRE(cu().MemAlloc(&memory, kMiB) == CUDA_SUCCESS);
  void *host = mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(host != MAP_FAILED);
  REQUIRE(cu().MemHostRegister(host, kMiB, 0) == CUDA_SUCCESS);
  REQUIRE(mprotect(host, kMiB, PROT_NONE) == 0);
  StreamHandle stream;
  CHECK(cu().MemcpyHtoDAsync(memory, host, kMiB, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  REQUIRE(cu().DevicePrimaryCtxRetain(&session.context, 0) == CUDA_SUCCESS);
  REQUIRE(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
  REQUIRE(cu().StreamCreate(&stream.handle, 0) == CUDA_SUCCESS);
  munmap(host, kMiB);
}

TEST_CASE("registering what isn't there, or may not be written") {
  Session session;
  void *host = mmap(nullptr, 65536, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(host != MAP_FAILED);
  CHECK(cu().MemHostRegister(host, 65536, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemHostRegister(host, 65536, CU_MEMHOSTREGISTER_READ_ONLY) == CUDA_SUCCESS);
  CHECK(cu().MemHostUnregister(host) == CUDA_SUCCESS);
  munmap(host, 65536);
  CHECK(cu().MemHostRegister(host, 65536, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(control().live().registrations == 0);
}

TEST_CASE("use is shared between processes, and a dead one's share comes back") {
  const std::string name = shared_name();
  {
    Session session{{"SHARED", name.c_str()}};
    CUdeviceptr memory = 0;
    REQUIRE(cu().MemAlloc(&memory, 40 * kMiB) == CUDA_SUCCESS);
    CHECK(WEXITSTATUS(child("shared-probe", name)) == 1);
    CHECK(cu().MemFree(memory) == CUDA_SUCCESS);
    CHECK(WIFSIGNALED(child("shared", name)));
    CHECK(WEXITSTATUS(child("shared-probe", name)) == 0);
  }
  shm_unlink(("/sluice-emulated-" + name).c_str());
}

int main(int argc, char **argv) {
  if (argc == 4 && std::string(argv[1]) == "--child") return run_child(argv[2], argv[3]);
  doctest::Context context(argc, argv);
  return context.run();
}

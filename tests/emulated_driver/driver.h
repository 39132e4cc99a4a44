// The emulated driver as its tests see it: loaded by path, every entry point through
// cuGetProcAddress with the version that introduced the form, and the control functions.
#pragma once

#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../../tools/emulated_driver/control.h"

// clang-format off
#define EMU_TEST_CALLS(X) \
  X(Init, 2000) X(DriverGetVersion, 2020) X(GetErrorName, 6000) X(DeviceGet, 2000) \
  X(DeviceGetCount, 2000) X(DeviceGetName, 2000) X(DeviceGetAttribute, 2000) \
  X(DeviceTotalMem, 3020) X(DeviceGetUuid, 11040) X(DeviceGetLuid, 10000) \
  X(DeviceCanAccessPeer, 4000) X(DeviceGetPCIBusId, 4010) X(DevicePrimaryCtxRetain, 7000) \
  X(DevicePrimaryCtxRelease, 11000) X(DevicePrimaryCtxGetState, 7000) \
  X(DevicePrimaryCtxSetFlags, 11000) X(CtxSetCurrent, 4000) X(CtxGetCurrent, 4000) \
  X(CtxPushCurrent, 4000) X(CtxPopCurrent, 4000) X(CtxGetDevice, 2000) X(CtxSynchronize, 2000) \
  X(CtxDestroy, 4000) X(CtxGetApiVersion, 3020) X(CtxEnablePeerAccess, 4000) X(MemGetInfo, 3020) \
  X(MemAlloc, 3020) X(MemFree, 3020) X(MemAllocAsync, 11020) X(MemFreeAsync, 11020) \
  X(MemAddressReserve, 10020) X(MemAddressFree, 10020) X(MemCreate, 10020) X(MemRelease, 10020) \
  X(MemMap, 10020) X(MemUnmap, 10020) X(MemSetAccess, 10020) X(MemGetAccess, 10020) \
  X(MemGetAllocationGranularity, 10020) X(MemRetainAllocationHandle, 11000) \
  X(MemGetAllocationPropertiesFromHandle, 10020) X(MemHostAlloc, 2020) X(MemFreeHost, 2000) \
  X(MemHostRegister, 6050) X(MemHostUnregister, 4000) X(MemHostGetFlags, 2030) \
  X(MemHostGetDevicePointer, 3020) X(PointerGetAttribute, 4000) X(PointerGetAttributes, 7000) \
  X(MemcpyHtoD, 3020) X(MemcpyDtoH, 3020) X(MemcpyDtoD, 3020) X(MemcpyHtoDAsync, 3020) \
  X(MemcpyDtoHAsync, 3020) X(MemcpyDtoDAsync, 3020) X(MemcpyAsync, 4000) \
  X(MemcpyPeerAsync, 4000) X(MemsetD8, 3020) X(MemsetD8Async, 3020) X(MemsetD16, 3020) \
  X(MemsetD32, 3020) X(MemsetD32Async, 3020) X(StreamCreate, 2000) X(StreamDestroy, 4000) \
  X(StreamQuery, 2000) X(StreamSynchronize, 2000) X(StreamWaitEvent, 3020) \
  X(StreamGetFlags, 5050) X(StreamCreateWithPriority, 5050) X(StreamGetPriority, 5050) \
  X(StreamAddCallback, 5000) X(StreamBeginCapture, 10010) X(StreamEndCapture, 10000) \
  X(StreamIsCapturing, 10000) X(StreamGetCaptureInfo, 10010) \
  X(ThreadExchangeStreamCaptureMode, 10010) X(LaunchHostFunc, 10000) X(EventCreate, 2000) \
  X(EventDestroy, 4000) X(EventRecord, 2000) X(EventQuery, 2000) X(EventSynchronize, 2000) \
  X(EventElapsedTime, 2000) X(GraphInstantiateWithFlags, 11040) X(GraphLaunch, 10000) \
  X(GraphDestroy, 10000) X(GraphExecDestroy, 10000) X(ModuleLoadData, 2000) \
  X(ModuleUnload, 2000) X(ModuleGetFunction, 2000) X(LaunchKernel, 4000) \
  X(FuncGetAttribute, 2020)
// clang-format on

inline void *emulated_library() {
  static void *library = [] {
    void *opened = dlopen(SLUICE_EMULATED_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);
    if (!opened) std::fprintf(stderr, "%s\n", dlerror()), std::abort();
    return opened;
  }();
  return library;
}

template <class F>
F emulated_symbol(const char *name) {
  F function = reinterpret_cast<F>(dlsym(emulated_library(), name));
  if (!function) std::fprintf(stderr, "no symbol %s\n", name), std::abort();
  return function;
}

struct Control {
#define EMU_TEST_CONTROL(name)             \
  decltype(&sluice_emulated_##name) name = \
      emulated_symbol<decltype(&sluice_emulated_##name)>("sluice_emulated_" #name);
  EMU_TEST_CONTROL(set)
  EMU_TEST_CONTROL(reset)
  EMU_TEST_CONTROL(calls)
  EMU_TEST_CONTROL(get_live)
  EMU_TEST_CONTROL(misuse_count)
  EMU_TEST_CONTROL(misuse_text)
  EMU_TEST_CONTROL(misuse_clear)
  EMU_TEST_CONTROL(host_alias)
  EMU_TEST_CONTROL(arm_fault)
  EMU_TEST_CONTROL(disarm_faults)
  EMU_TEST_CONTROL(faults_fired)
#undef EMU_TEST_CONTROL
  sluice_emulated_live live() const {
    sluice_emulated_live now;
    get_live(&now);
    return now;
  }
  std::string misuse(uint64_t i = 0) const {
    char text[512];
    misuse_text(i, text, sizeof text);
    return text;
  }
};

inline Control &control() {
  static Control functions;
  return functions;
}

// The form that every reported version has.
inline auto proc_address = emulated_symbol<PFN_cuGetProcAddress_v11030>("cuGetProcAddress");

template <class F>
F entry(const char *name, int version, cuuint64_t flags = 0) {
  void *function = nullptr;
  return proc_address(name, &function, version, flags) == CUDA_SUCCESS
             ? reinterpret_cast<F>(function)
             : nullptr;
}

struct Calls {
#define EMU_TEST_MEMBER(name, version) \
  PFN_cu##name##_v##version name = entry<PFN_cu##name##_v##version>("cu" #name, version);
  EMU_TEST_CALLS(EMU_TEST_MEMBER)
#undef EMU_TEST_MEMBER
};

inline Calls &cu() {
  static Calls calls;
  return calls;
}

inline constexpr size_t kMiB = size_t{1} << 20;
inline constexpr size_t kGranule = 2 * kMiB;

struct Setting {
  const char *name;
  const char *value;
};

// A fresh driver with a current primary context; checks at the end that the test left nothing
// behind.
class Session {
 public:
  Session(std::initializer_list<Setting> settings = {}) {
    REQUIRE(control().reset() == 0);
    REQUIRE(control().set("MEMORY", "64MiB") == 0);
    for (const Setting &each : settings) REQUIRE(control().set(each.name, each.value) == 0);
    REQUIRE(cu().Init(0) == CUDA_SUCCESS);
    REQUIRE(cu().DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cu().CtxSetCurrent(context) == CUDA_SUCCESS);
  }
  ~Session() {
    control().disarm_faults();
    if (release) CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    CHECK(cu().CtxSetCurrent(nullptr) == CUDA_SUCCESS);
    if (clean) CHECK_MESSAGE(control().misuse_count() == 0, control().misuse());
    CHECK(control().reset() == 0);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  CUcontext context = nullptr;
  bool clean = true;  // no misuse is expected
  bool release = true;
};

inline CUmemAllocationProp device_memory(int device = 0) {
  CUmemAllocationProp properties;
  std::memset(&properties, 0, sizeof properties);
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

inline CUresult make_accessible(CUdeviceptr address, size_t bytes, int device = 0) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return cu().MemSetAccess(address, bytes, &access, 1);
}

// Reserved, mapped and accessible device memory of `handles` granules.
struct Mapped {
  CUdeviceptr address = 0;
  size_t bytes;
  explicit Mapped(unsigned handles = 1) : bytes(handles * kGranule) {
    REQUIRE(cu().MemAddressReserve(&address, bytes, 0, 0, 0) == CUDA_SUCCESS);
    map();
  }
  void map() {
    const CUmemAllocationProp properties = device_memory();
    for (size_t at = 0; at < bytes; at += kGranule) {
      CUmemGenericAllocationHandle handle;
      REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
      REQUIRE(cu().MemMap(address + at, kGranule, 0, handle, 0) == CUDA_SUCCESS);
      REQUIRE(cu().MemRelease(handle) == CUDA_SUCCESS);
    }
    REQUIRE(make_accessible(address, bytes) == CUDA_SUCCESS);
    mapped = true;
  }
  void unmap() {
    REQUIRE(cu().MemUnmap(address, bytes) == CUDA_SUCCESS);
    mapped = false;
  }
  ~Mapped() {
    if (mapped) CHECK(cu().MemUnmap(address, bytes) == CUDA_SUCCESS);
    CHECK(cu().MemAddressFree(address, bytes) == CUDA_SUCCESS);
  }
  bool mapped = false;
};

struct Pinned {
  unsigned char *data = nullptr;
  size_t bytes;
  explicit Pinned(size_t n, int value = 0) : bytes(n) {
    REQUIRE(cu().MemHostAlloc(reinterpret_cast<void **>(&data), n, 0) == CUDA_SUCCESS);
    std::memset(data, value, n);
  }
  ~Pinned() { CHECK(cu().MemFreeHost(data) == CUDA_SUCCESS); }
};

struct StreamHandle {
  CUstream handle = nullptr;
  explicit StreamHandle(unsigned flags = CU_STREAM_NON_BLOCKING) {
    REQUIRE(cu().StreamCreate(&handle, flags) == CUDA_SUCCESS);
  }
  ~StreamHandle() { CHECK(cu().StreamDestroy(handle) == CUDA_SUCCESS); }
  operator CUstream() const { return handle; }
};

struct EventHandle {
  CUevent handle = nullptr;
  EventHandle() { REQUIRE(cu().EventCreate(&handle, 0) == CUDA_SUCCESS); }
  ~EventHandle() { CHECK(cu().EventDestroy(handle) == CUDA_SUCCESS); }
  operator CUevent() const { return handle; }
};

// Holds a stream up until it is opened.
class Barrier {
 public:
  void hold(CUstream stream) { REQUIRE(cu().LaunchHostFunc(stream, wait, this) == CUDA_SUCCESS); }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  ~Barrier() { open(); }

 private:
  static void wait(void *self) {
    auto *barrier = static_cast<Barrier *>(self);
    std::unique_lock lock(barrier->mutex_);
    while (!barrier->open_) barrier->changed_.wait(lock);
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

// Entry points, devices, contexts and address management, over all reported versions.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include "driver.h"

namespace {

const char *const kVersions[] = {"11080", "12040", "12080", "13000"};

int reported(const char *text) { return static_cast<int>(std::strtol(text, nullptr, 10)); }

void *address_of(const char *name, int version, cuuint64_t flags = 0) {
  return entry<void *>(name, version, flags);
}

void *symbol(const char *name) { return dlsym(emulated_library(), name); }

}  // namespace

TEST_CASE("the basics work under every version") {
  for (const char *version : kVersions) {
    CAPTURE(version);
    Session session{{"VERSION", version}};
    int driver = 0, count = 0, vmm = 0;
    char name[64];
    CHECK(cu().DriverGetVersion(&driver) == CUDA_SUCCESS);
    CHECK(driver == reported(version));
    CHECK(cu().DeviceGetCount(&count) == CUDA_SUCCESS);
    CHECK(count == 1);
    CHECK(cu().DeviceGetName(name, sizeof name, 0) == CUDA_SUCCESS);
    CHECK(cu().DeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                  0) == CUDA_SUCCESS);
    CHECK(vmm == 1);
    Mapped memory(2);
    Pinned source(memory.bytes, 42), target(memory.bytes, 0);
    StreamHandle stream;
    EventHandle event;
    CHECK(cu().MemcpyHtoDAsync(memory.address, source.data, source.bytes, stream) == CUDA_SUCCESS);
    CHECK(cu().MemcpyDtoHAsync(target.data, memory.address, target.bytes, stream) == CUDA_SUCCESS);
    CHECK(cu().EventRecord(event, stream) == CUDA_SUCCESS);
    CHECK(cu().EventSynchronize(event) == CUDA_SUCCESS);
    CHECK(std::memcmp(source.data, target.data, source.bytes) == 0);
  }
}

TEST_CASE("cuGetProcAddress gives the form of the version asked for") {
  Session session;
  struct Form {
    const char *name;
    int version;
    const char *symbol;
  };
  const Form forms[] = {
      {"cuMemcpyBatchAsync", 12080, "cuMemcpyBatchAsync"},
      {"cuMemcpyBatchAsync", 12090, "cuMemcpyBatchAsync"},
      {"cuMemcpyBatchAsync", 13000, "cuMemcpyBatchAsync_v2"},
      {"cuCtxGetDevice", 2000, "cuCtxGetDevice"},
      {"cuCtxGetDevice", 12080, "cuCtxGetDevice"},
      {"cuCtxGetDevice", 13000, "cuCtxGetDevice_v2"},
      {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
      {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
      {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
      {"cuDeviceGetUuid", 9020, "cuDeviceGetUuid"},
      {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
      {"cuEventElapsedTime", 12040, "cuEventElapsedTime"},
      {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
      {"cuStreamGetCaptureInfo", 10010, "cuStreamGetCaptureInfo"},
      {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
      {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
      {"cuGetProcAddress", 11030, "cuGetProcAddress"},
      {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
  };
  for (const Form &form : forms) {
    CAPTURE(form.name);
    CAPTURE(form.version);
    CHECK(address_of(form.name, form.version) != nullptr);
    CHECK(address_of(form.name, form.version) == symbol(form.symbol));
  }
  CHECK(address_of("cuMemcpyHtoDAsync", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
        symbol("cuMemcpyHtoDAsync_v2_ptsz"));
  CHECK(address_of("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
        symbol("cuMemcpyHtoD_v2_ptds"));
  CHECK(address_of("cuMemCreate", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) ==
        symbol("cuMemCreate"));
}

TEST_CASE("what is newer than the reported version is absent") {
  Session session{{"VERSION", "12040"}};
  void *function = &function;
  CUdriverProcAddressQueryResult status;
  auto new_form = emulated_symbol<PFN_cuGetProcAddress_v12000>("cuGetProcAddress_v2");
  CHECK(new_form("cuMemcpyBatchAsync", &function, 12080, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(function == nullptr);
  CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  CHECK(new_form("cuNoSuchThing", &function, 12000, 0, &status) == CUDA_ERROR_NOT_FOUND);
  CHECK(status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  CHECK(new_form("cuCtxCreate", &function, 13000, 0, &status) == CUDA_SUCCESS);
  CHECK(function == symbol("cuCtxCreate_v3"));
  REQUIRE(control().set("VERSION", "11080") == 0);
  CHECK(new_form("cuInit", &function, 2000, 0, &status) == CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER);
  CHECK(proc_address("cuStreamGetId", &function, 12000, 0) == CUDA_ERROR_NOT_FOUND);
  CHECK(proc_address("cuInit", &function, 11030, 0) == CUDA_SUCCESS);
  CHECK(function == symbol("cuInit"));
}

TEST_CASE("contexts") {
  Session session;
  CUcontext now = nullptr, other = nullptr;
  unsigned flags = 0;
  int active = 0;
  CHECK(cu().CtxGetCurrent(&now) == CUDA_SUCCESS);
  CHECK(now == session.context);
  CHECK(cu().DevicePrimaryCtxGetState(0, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 1);
  CHECK(cu().DevicePrimaryCtxRetain(&other, 0) == CUDA_SUCCESS);
  CHECK(other == session.context);
  CHECK(cu().DevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
  auto create = entry<PFN_cuCtxCreate_v3020>("cuCtxCreate", 3020);
  CHECK(create(&other, 0, 0) == CUDA_SUCCESS);
  CHECK(cu().CtxGetCurrent(&now) == CUDA_SUCCESS);
  CHECK(now == other);
  CHECK(cu().CtxDestroy(other) == CUDA_SUCCESS);
  CHECK(cu().CtxGetCurrent(&now) == CUDA_SUCCESS);
  CHECK(now == session.context);
  CHECK(cu().CtxPushCurrent(session.context) == CUDA_SUCCESS);
  CHECK(cu().CtxPopCurrent(&now) == CUDA_SUCCESS);
  CUdevice device = -1;
  CHECK(cu().CtxGetDevice(&device) == CUDA_SUCCESS);
  CHECK(device == 0);
  char luid[8];
  unsigned mask;
  CHECK(cu().DeviceGetLuid(luid, &mask, 0) == CUDA_ERROR_NOT_SUPPORTED);
}

TEST_CASE("address management errors") {
  Session session;
  const CUmemAllocationProp properties = device_memory();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle first, second;
  size_t granule = 0;
  CHECK(cu().MemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) ==
        CUDA_SUCCESS);
  CHECK(granule == kGranule);
  CHECK(cu().MemAddressReserve(&address, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemAddressReserve(&address, 100, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemAddressReserve(&address, 4 * kGranule, 3, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cu().MemAddressReserve(&address, 4 * kGranule, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(address % kGranule == 0);
  CHECK(cu().MemCreate(&first, kGranule + 1, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemCreate(&first, kGranule, &properties, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemCreate(&first, 128 * kMiB, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(cu().MemCreate(&first, kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&second, kGranule, &properties, 0) == CUDA_SUCCESS);
  CHECK(cu().MemMap(address, kGranule, kGranule, first, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cu().MemMap(address + 4096, kGranule, 0, first, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemMap(address + 4 * kGranule, kGranule, 0, first, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cu().MemMap(address, kGranule, 0, first, 0) == CUDA_SUCCESS);
  CHECK(cu().MemMap(address, kGranule, 0, second, 0) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cu().MemMap(address + kGranule, kGranule, 0, second, 0) == CUDA_SUCCESS);
  CHECK(make_accessible(address, 3 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(make_accessible(address, 2 * kGranule) == CUDA_SUCCESS);
  unsigned long long access = 0;
  CHECK(cu().MemGetAccess(&access, &properties.location, address) == CUDA_SUCCESS);
  CHECK(access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(cu().MemAddressFree(address, 4 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemUnmap(address, 3 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemUnmap(address, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, 2 * kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemAddressFree(address, 4 * kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(first) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(second) == CUDA_SUCCESS);
}

TEST_CASE("a part of a mapping can't be unmapped") {
  Session session;
  const CUmemAllocationProp properties = device_memory();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle;
  REQUIRE(cu().MemAddressReserve(&address, 2 * kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, 2 * kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemMap(address, 2 * kGranule, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(cu().MemUnmap(address, kGranule) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemUnmap(address, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, 2 * kGranule) == CUDA_SUCCESS);
}

TEST_CASE("memory lives as long as a reference or a mapping") {
  Session session;
  const CUmemAllocationProp properties = device_memory();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle, again;
  size_t before, after, total;
  REQUIRE(cu().MemGetInfo(&before, &total) == CUDA_SUCCESS);
  CHECK(total == 64 * kMiB);
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemMap(address, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemGetInfo(&after, &total) == CUDA_SUCCESS);
  CHECK(before - after == kGranule);
  CHECK(cu().MemRetainAllocationHandle(&again, reinterpret_cast<void *>(address + 100)) ==
        CUDA_SUCCESS);
  CHECK(again == handle);
  CHECK(cu().MemUnmap(address, kGranule) == CUDA_SUCCESS);
  CHECK(control().live().physical_handles == 1);
  CHECK(cu().MemRelease(again) == CUDA_SUCCESS);
  CHECK(control().live().physical_handles == 0);
  CHECK(control().live().peak_physical_bytes == kGranule);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
}

TEST_CASE("one handle at two addresses") {
  Session session;
  const CUmemAllocationProp properties = device_memory();
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle;
  REQUIRE(cu().MemAddressReserve(&address, 2 * kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  for (unsigned i = 0; i < 2; ++i)
    REQUIRE(cu().MemMap(address + i * kGranule, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  REQUIRE(make_accessible(address, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemsetD32(address, 0x12345678, 16) == CUDA_SUCCESS);
  uint32_t word = 0;
  CHECK(cu().MemcpyDtoH(&word, address + kGranule, 4) == CUDA_SUCCESS);
  CHECK(word == 0x12345678);
  CHECK(cu().MemUnmap(address, 2 * kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, 2 * kGranule) == CUDA_SUCCESS);
}

TEST_CASE("plain and stream-ordered allocations") {
  Session session;
  CUdeviceptr plain = 0, pooled = 0, base = 0;
  CHECK(cu().MemAlloc(&plain, 1000) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8(plain, 9, 1000) == CUDA_SUCCESS);
  unsigned type = 0;
  size_t size = 0;
  CHECK(cu().PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain + 5) ==
        CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_DEVICE);
  CHECK(cu().PointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, plain + 5) ==
        CUDA_SUCCESS);
  CHECK(base == plain);
  CHECK(cu().PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, plain + 5) ==
        CUDA_SUCCESS);
  CHECK(size >= 1000);
  StreamHandle stream;
  CHECK(cu().MemAllocAsync(&pooled, 40 * kMiB, stream) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8Async(pooled, 1, 40 * kMiB, stream) == CUDA_SUCCESS);
  CHECK(cu().MemFreeAsync(pooled, stream) == CUDA_SUCCESS);
  CHECK(cu().MemAllocAsync(&pooled, 40 * kMiB, stream) == CUDA_SUCCESS);
  CHECK(cu().MemFreeAsync(pooled, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cu().MemFree(plain) == CUDA_SUCCESS);
  CHECK(control().live().device_allocations == 0);
}

TEST_CASE("the batched copy in both forms") {
  Session session;
  Mapped memory;
  Pinned source(4096, 5), target(4096, 0);
  StreamHandle stream;
  CUdeviceptr to[] = {memory.address, memory.address + 4096};
  CUdeviceptr from[] = {reinterpret_cast<CUdeviceptr>(source.data),
                        reinterpret_cast<CUdeviceptr>(source.data) + 2048};
  size_t sizes[] = {2048, 2048}, starts[] = {0}, failed = 0;
  CUmemcpyAttributes attributes{};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  auto old_form = entry<PFN_cuMemcpyBatchAsync_v12080>("cuMemcpyBatchAsync", 12080);
  auto new_form = entry<PFN_cuMemcpyBatchAsync_v13000>("cuMemcpyBatchAsync", 13000);
  CHECK(old_form(to, from, sizes, 2, &attributes, starts, 1, &failed, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(old_form(to, from, sizes, 2, &attributes, starts, 1, &failed, stream) == CUDA_SUCCESS);
  CHECK(new_form(to, from, sizes, 2, &attributes, starts, 1, stream) == CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoHAsync(target.data, memory.address + 4096, 2048, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(target.data[2047] == 5);
}

TEST_CASE("host memory kinds and errors") {
  Session session;
  std::vector<char> bytes(1 * kMiB);
  unsigned flags = 99, type = 0;
  CUdeviceptr device = 0;
  CHECK(cu().MemHostRegister(bytes.data(), 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemHostRegister(bytes.data(), bytes.size(), CU_MEMHOSTREGISTER_PORTABLE) ==
        CUDA_SUCCESS);
  CHECK(cu().MemHostGetFlags(&flags, bytes.data()) == CUDA_SUCCESS);
  CHECK(flags == CU_MEMHOSTREGISTER_PORTABLE);
  CHECK(cu().MemHostGetDevicePointer(&device, bytes.data(), 0) == CUDA_SUCCESS);
  CHECK(device == reinterpret_cast<CUdeviceptr>(bytes.data()));
  CHECK(cu().PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device) == CUDA_SUCCESS);
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK(cu().MemHostUnregister(bytes.data() + 4096) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().MemHostUnregister(bytes.data()) == CUDA_SUCCESS);
  CHECK(cu().PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("host memory from cuMemCreate") {
  Session session;
  CUmemAllocationProp properties = device_memory();
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  CUdeviceptr address = 0;
  CUmemGenericAllocationHandle handle;
  REQUIRE(cu().MemAddressReserve(&address, kGranule, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemCreate(&handle, kGranule, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cu().MemMap(address, kGranule, 0, handle, 0) == CUDA_SUCCESS);
  CUmemAccessDesc access[2] = {};
  access[0].location.type = CU_MEM_LOCATION_TYPE_HOST;
  access[1].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  REQUIRE(cu().MemSetAccess(address, kGranule, access, 2) == CUDA_SUCCESS);
  auto *words = reinterpret_cast<uint32_t *>(address);
  words[7] = 77;
  Mapped memory;
  uint32_t back = 0;
  CHECK(cu().MemcpyHtoD(memory.address, words, 64) == CUDA_SUCCESS);
  CHECK(cu().MemcpyDtoH(&back, memory.address + 28, 4) == CUDA_SUCCESS);
  CHECK(back == 77);
  CHECK(cu().MemUnmap(address, kGranule) == CUDA_SUCCESS);
  CHECK(cu().MemRelease(handle) == CUDA_SUCCESS);
  CHECK(cu().MemAddressFree(address, kGranule) == CUDA_SUCCESS);
}

TEST_CASE("two devices") {
  Session session{{"DEVICES", "2"}};
  int can = 0;
  CHECK(cu().DeviceCanAccessPeer(&can, 0, 1) == CUDA_SUCCESS);
  CHECK(can == 1);
  CUcontext other = nullptr;
  REQUIRE(cu().DevicePrimaryCtxRetain(&other, 1) == CUDA_SUCCESS);
  CHECK(cu().CtxEnablePeerAccess(other, 0) == CUDA_SUCCESS);
  CHECK(cu().CtxEnablePeerAccess(other, 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  CUdeviceptr here = 0, there = 0;
  CHECK(cu().MemAlloc(&here, 4096) == CUDA_SUCCESS);
  CHECK(cu().CtxSetCurrent(other) == CUDA_SUCCESS);
  CHECK(cu().MemAlloc(&there, 4096) == CUDA_SUCCESS);
  CHECK(cu().MemsetD8(there, 8, 4096) == CUDA_SUCCESS);
  CHECK(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
  StreamHandle stream;
  CHECK(cu().MemcpyPeerAsync(here, session.context, there, other, 4096, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  unsigned char byte = 0;
  CHECK(cu().MemcpyDtoH(&byte, here + 4095, 1) == CUDA_SUCCESS);
  CHECK(byte == 8);
  CHECK(cu().MemFree(here) == CUDA_SUCCESS);
  CHECK(cu().CtxSetCurrent(other) == CUDA_SUCCESS);
  CHECK(cu().MemFree(there) == CUDA_SUCCESS);
  CHECK(cu().CtxSetCurrent(session.context) == CUDA_SUCCESS);
  CHECK(cu().DevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
}

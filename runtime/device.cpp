#include "runtime/device.h"

#include <algorithm>

namespace sluice {

Result<DriverScope> DriverScope::enter(const Device &device) {
  const Driver &driver = device.driver();
  DriverScope scope;
  SLUICE_CUDA(driver, cuCtxGetCurrent, "", &scope.previous_);
  scope.mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  SLUICE_CUDA(driver, cuThreadExchangeStreamCaptureMode, "", &scope.mode_);
  scope.driver_ = &driver;  // from here on the destructor restores
  if (scope.previous_ != device.context()) {
    SLUICE_CUDA(driver, cuCtxSetCurrent, "", device.context());
    scope.switched_ = true;
  }
  return scope;
}

DriverScope DriverScope::insist(const Device &device) noexcept {
  for (int attempt = 0; attempt < 2; ++attempt)
    if (auto scope = enter(device); scope.ok()) return scope.take();
  return DriverScope();
}

DriverScope::~DriverScope() {
  if (!driver_ || process_is_exiting() || process_was_forked()) return;
  const DriverTable &cuda = driver_->table();
  // Once more on failure: what is the caller's must be restored.
  if (switched_ && cuda.cuCtxSetCurrent(previous_) != CUDA_SUCCESS) cuda.cuCtxSetCurrent(previous_);
  CUstreamCaptureMode mode = mode_;
  if (cuda.cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) {
    mode = mode_;
    cuda.cuThreadExchangeStreamCaptureMode(&mode);
  }
}

void wait_for_stream(const Device &device, CUstream stream) noexcept {
  device.counters().stream_waits.add();
  if (device.cuda().cuStreamSynchronize(stream) != CUDA_SUCCESS)
    device.cuda().cuStreamSynchronize(stream);
}

void wait_for_context(const Device &device) noexcept {
  device.counters().device_waits.add();
  if (device.cuda().cuCtxSynchronize() != CUDA_SUCCESS) device.cuda().cuCtxSynchronize();
}

Device::Device(Runtime &runtime, uint32_t ordinal, CUdevice device)
    : runtime_(runtime), ordinal_(ordinal), device_(device) {}

namespace {

int attribute(const Device &device, CUdevice_attribute which, int otherwise) {
  int value = otherwise;
  if (device.cuda().cuDeviceGetAttribute(&value, which, device.handle()) != CUDA_SUCCESS)
    return otherwise;
  return value;
}

CUmemAllocationProp device_memory(int ordinal) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = ordinal;
  return prop;
}

}  // namespace

Status Device::read_facts() {
  char text[128] = "";
  SLUICE_CUDA(driver(), cuDeviceGetName, "", text, sizeof text, device_);
  facts_.name = text;
  char bus[16] = "";
  if (cuda().cuDeviceGetPCIBusId(bus, sizeof bus, device_) == CUDA_SUCCESS) facts_.pci_bus_id = bus;
  CUuuid uuid{};
  if (cuda().cuDeviceGetUuid(&uuid, device_) == CUDA_SUCCESS)
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), std::begin(facts_.uuid));
  size_t total = 0;
  SLUICE_CUDA(driver(), cuDeviceTotalMem, facts_.name, &total, device_);
  facts_.total_bytes = total;
  facts_.compute_major = attribute(*this, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  facts_.compute_minor = attribute(*this, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  facts_.integrated = attribute(*this, CU_DEVICE_ATTRIBUTE_INTEGRATED, 0) != 0;
  facts_.read_only_host_register =
      attribute(*this, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 0) != 0;
  facts_.numa_node = attribute(*this, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1);
  const auto vmm = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  if (attribute(*this, vmm, 0) == 0)
    return error(SLUICE_NOT_SUPPORTED, "GPU {} ({}) has no virtual memory management", ordinal_,
                 facts_.name);
  const CUmemAllocationProp prop = device_memory(device_);
  size_t granularity = 0;
  SLUICE_CUDA(driver(), cuMemGetAllocationGranularity, facts_.name, &granularity, &prop,
              CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  facts_.granularity_bytes = granularity;
  return {};
}

Result<std::unique_ptr<Device>> Device::open(Runtime &runtime, uint32_t ordinal) {
  const Driver &driver = *runtime.driver();
  int count = 0;
  SLUICE_CUDA(driver, cuDeviceGetCount, "", &count);
  if (ordinal >= static_cast<uint32_t>(std::max(count, 0)))
    return error(SLUICE_NO_DEVICE, "there is no GPU {}: the driver {} shows {}", ordinal,
                 driver.path(), count);
  CUdevice handle = 0;
  SLUICE_CUDA(driver, cuDeviceGet, "", &handle, static_cast<int>(ordinal));
  std::unique_ptr<Device> device(new Device(runtime, ordinal, handle));
  device->events_ = std::make_unique<EventPool>(*device);
  device->retirement_ = std::make_unique<Retirement>(*device);
  SLUICE_TRY(device->read_facts());
  SLUICE_CUDA(driver, cuDevicePrimaryCtxRetain, device->facts_.name, &device->context_, handle);
  device->set_vram_limit(runtime.options().vram_limit);
  return device;
}

Device::~Device() {
  if (process_is_exiting() || process_was_forked()) {
    static_cast<void>(retirement_.release());  // what they hold went with the process
    static_cast<void>(events_.release());
    return;
  }
  if (!context_) return;
  const DriverScope scope = DriverScope::insist(*this);
  retirement_.reset();
  events_.reset();
  give_back(*this, "cuDevicePrimaryCtxRelease",
            [&] { return cuda().cuDevicePrimaryCtxRelease(device_); });
}

uint64_t Device::vram_beside_headroom() const noexcept {
  const uint64_t headroom = runtime_.options().vram_headroom;
  return facts_.total_bytes > headroom ? facts_.total_bytes - headroom : 0;
}

void Device::set_vram_limit(uint64_t bytes) noexcept {
  vram_.set_limit(std::min(bytes, vram_beside_headroom()));
}

Status Device::close_parts() {
  for (size_t index = kParts; index-- > 0;) {
    const std::lock_guard lock(parts_mutexes_[index]);
    DevicePart *part = parts_[index].load(std::memory_order_acquire);
    if (!part) continue;
    SLUICE_TRY(part->close());
    parts_[index].store(nullptr, std::memory_order_release);
    delete part;
  }
  return {};
}

}  // namespace sluice

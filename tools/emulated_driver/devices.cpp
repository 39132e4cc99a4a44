// Devices: start-up, names, attributes. Threads: any; the list of devices doesn't change after
// cuInit.
#include <cstdio>
#include <cstring>

#include "process.h"
#include "state.h"

namespace emulated {

State &state = *new State;

Device *device_of(int ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= state.devices.size()) return nullptr;
  return state.devices[static_cast<size_t>(ordinal)].get();
}

void drop_devices() {
  for (const auto &device : state.devices) destroy_device_memory(*device);
  state.devices.clear();
  close_shared_use();
  state.initialized = false;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult init(unsigned flags) {
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard lock(state.contexts_mutex);
  if (state.initialized) return CUDA_SUCCESS;
  if (settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (const std::string name = shared_name(); !name.empty()) open_shared_use(name);
  for (int i = 0; i < settings.devices; ++i) {
    auto device = std::make_unique<Device>();
    device->ordinal = i;
    device->bytes = settings.memory_bytes / settings.granularity_bytes * settings.granularity_bytes;
    if (!create_device_memory(*device)) {
      for (const auto &made : state.devices) destroy_device_memory(*made);
      state.devices.clear();
      close_shared_use();
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    state.devices.push_back(std::move(device));
  }
  state.process = process_number();
  state.initialized = true;
  return CUDA_SUCCESS;
}

CUresult driver_get_version(int *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = settings.version;
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice *out, int ordinal) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_get_count(int *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = static_cast<int>(state.devices.size());
  return CUDA_SUCCESS;
}

CUresult device_get_name(char *out, int capacity, CUdevice ordinal) {
  if (!out || capacity <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(out, static_cast<size_t>(capacity), "sluice emulated GPU");
  return CUDA_SUCCESS;
}

CUresult device_get_uuid(CUuuid *out, CUdevice ordinal) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(out->bytes, "sluice-emulated", 16);
  out->bytes[15] = static_cast<char>(ordinal);
  return CUDA_SUCCESS;
}

CUresult device_get_luid(char *, unsigned *, CUdevice) { return CUDA_ERROR_NOT_SUPPORTED; }

CUresult device_total_mem(size_t *out, CUdevice ordinal) {
  const Device *device = device_of(ordinal);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *out = device->bytes;
  return CUDA_SUCCESS;
}

CUresult device_get_pci_bus_id(char *out, int capacity, CUdevice ordinal) {
  if (!out || capacity < 13) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(out, static_cast<size_t>(capacity), "0000:%02x:00.0",
                static_cast<unsigned>(ordinal + 1));
  return CUDA_SUCCESS;
}

CUresult device_get_by_pci_bus_id(CUdevice *out, const char *text) {
  if (!out || !text) return CUDA_ERROR_INVALID_VALUE;
  char name[32];
  for (const auto &device : state.devices) {
    (void)device_get_pci_bus_id(name, sizeof name, device->ordinal);
    if (!std::strcmp(name, text) || !std::strcmp(name + 5, text))
      return *out = device->ordinal, CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

namespace {

struct Attribute {
  int number;
  int value;
};

// Of a machine like the one in FACTS.md; what isn't here is 0.
const Attribute kAttributes[] = {
    {1, 1024},     {2, 1024},  {3, 1024},      {4, 64},      {5, 2147483647},  {6, 65535},
    {7, 65535},    {8, 49152}, {9, 65536},     {10, 32},     {11, 2147483647}, {12, 65536},
    {13, 1980000}, {14, 512},  {15, 1},        {16, 132},    {19, 1},          {31, 1},
    {36, 3201000}, {37, 6144}, {38, 62914560}, {39, 2048},   {41, 1},          {75, 9},
    {76, 0},       {78, 1},    {79, 1},        {80, 1},      {81, 233472},     {82, 65536},
    {90, 1},       {91, 1},    {95, 1},        {97, 232448}, {99, 1},          {106, 32},
    {115, 1},
};

// The newest attribute number that a driver of this version knows.
int last_attribute(int version) {
  if (version >= 13000) return 147;
  if (version >= 12080) return 141;
  if (version >= 12040) return 134;
  return 128;
}

int attribute_value(const Device &device, int number) {
  switch (number) {
    case 33:
      return device.ordinal + 1;
    case 40:
      return static_cast<int>(settings.copy_engines);
    case 102:
      return feature_absent(kFeatureVmm) ? 0 : 1;
    case 113:
      return feature_absent(kFeatureReadOnlyRegister) ? 0 : 1;
    case 141:
    case 145:
      return feature_absent(kFeatureHostVmm) || feature_absent(kFeatureVmm) ? 0 : 1;
    default:
      break;
  }
  for (const Attribute &attribute : kAttributes)
    if (attribute.number == number) return attribute.value;
  return 0;
}

}  // namespace

CUresult device_get_attribute(int *out, CUdevice_attribute attribute, CUdevice ordinal) {
  const Device *device = device_of(ordinal);
  const int number = static_cast<int>(attribute);
  if (!out || number < 1 || number > last_attribute(settings.version))
    return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *out = attribute_value(*device, number);
  return CUDA_SUCCESS;
}

CUresult device_can_access_peer(int *out, CUdevice from, CUdevice to) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(from) || !device_of(to)) return CUDA_ERROR_INVALID_DEVICE;
  *out = from != to;
  return CUDA_SUCCESS;
}

CUresult profiler_start() { return CUDA_SUCCESS; }
CUresult profiler_stop() { return CUDA_SUCCESS; }

}  // namespace emulated

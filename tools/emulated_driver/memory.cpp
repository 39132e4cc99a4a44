// Device memory: one store per device. A physical handle or a plain allocation is an offset in it;
// copies and kernels use the store's own address. Public addresses are reservations without access
// (so that a host dereference faults), or, with HOST_ACCESS, show the store once more. Locks: the
// memory mutex; shared for look-ups, exclusive for changes. Invariant: mappings never overlap, and
// each lies inside one reservation or inside a device's window.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "gate.h"
#include "state.h"

namespace emulated {

namespace {

constexpr uint64_t kSmallAlignment = 512;
constexpr unsigned char kPoisonByte = 0xA5;

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// Lowest fit. UINT64_MAX: no free span is large enough.
uint64_t take_span(Device &device, uint64_t bytes, uint64_t alignment) {
  for (auto it = device.spans.begin(); it != device.spans.end(); ++it) {
    const auto [start, length] = *it;
    const uint64_t offset = round_up(start, alignment);
    if (offset - start > length || length - (offset - start) < bytes) continue;
    device.spans.erase(it);
    if (offset > start) device.spans[start] = offset - start;
    const uint64_t rest = start + length - (offset + bytes);
    if (rest) device.spans[offset + bytes] = rest;
    return offset;
  }
  return UINT64_MAX;
}

void return_span(Device &device, uint64_t offset, uint64_t bytes) {
  auto next = device.spans.lower_bound(offset);
  if (next != device.spans.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      device.spans.erase(before);
    }
  }
  if (next != device.spans.end() && offset + bytes == next->first) {
    bytes += next->second;
    device.spans.erase(next);
  }
  device.spans[offset] = bytes;
}

uint64_t take_memory(Device &device, uint64_t bytes, uint64_t alignment) {
  if (!charge_shared(device.ordinal, bytes, device.bytes)) return UINT64_MAX;
  const uint64_t offset = take_span(device, bytes, alignment);
  const bool found = offset != UINT64_MAX;
  if (!found || !use_store(device.store, offset, bytes)) {
    if (found) return_span(device, offset, bytes);
    uncharge_shared(device.ordinal, bytes);
    return UINT64_MAX;
  }
  device.used_bytes += bytes;
  uint64_t used = 0;
  for (const auto &each : state.devices) used += each->used_bytes;
  state.peak_physical_bytes = std::max(state.peak_physical_bytes, used);
  return offset;
}

void give_memory(Device &device, uint64_t offset, uint64_t bytes) {
  device.used_bytes -= bytes;
  uncharge_shared(device.ordinal, bytes);
  const uint64_t kept = settings.pretouch_bytes;
  const uint64_t begin = round_up(std::max(offset, kept), kPageBytes);
  const uint64_t end = (offset + bytes) / kPageBytes * kPageBytes;
  if (begin < end) clear_store(device.store, begin, end);
  return_span(device, offset, bytes);
}

char *base_of(const Mapping &mapping) {
  if (mapping.physical && mapping.physical->store.base) return mapping.physical->store.base;
  return state.devices[static_cast<size_t>(mapping.device)]->store.base + mapping.offset;
}

bool is_granular(uint64_t value) { return value % settings.granularity_bytes == 0; }

bool is_host_type(CUmemLocationType type) {
  return type == CU_MEM_LOCATION_TYPE_HOST || type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

void make_host_reachable(const Mapping &mapping, Shown how) {
  const bool on_host = mapping.physical->store.base != nullptr;
  const Store &store =
      on_host ? mapping.physical->store : state.devices[static_cast<size_t>(mapping.device)]->store;
  show_store(store, mapping.offset, mapping.address, mapping.bytes, how);
}

void drop_physical(Physical &physical) {
  if (physical.references || physical.mappings) return;
  if (physical.store.base) {
    drop_store(physical.store);
    uncharge_pinned(physical.bytes);
  } else {
    give_memory(*state.devices[static_cast<size_t>(physical.device)], physical.offset,
                physical.bytes);
  }
  state.physical.erase(physical.handle);
}

Physical *find_physical(CUmemGenericAllocationHandle handle) {
  const auto it = state.physical.find(handle);
  return it == state.physical.end() || it->second->references == 0 ? nullptr : it->second.get();
}

CUresult check_properties(const CUmemAllocationProp &properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (properties.win32HandleMetaData) return CUDA_ERROR_INVALID_VALUE;
  if (is_host_type(properties.location.type)) {
    if (feature_absent(kFeatureHostVmm) || !kStoresCanBeShown) return CUDA_ERROR_NOT_SUPPORTED;
    if (properties.requestedHandleTypes) return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  }
  if (properties.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!device_of(properties.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  const unsigned exported = properties.requestedHandleTypes;
  if (exported & ~static_cast<unsigned>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

CUresult create_host_physical(Physical &physical) {
  if (!charge_pinned(physical.bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  if (make_store(physical.store, "emulated-host", physical.bytes)) {
    if (use_store(physical.store, 0, physical.bytes)) return CUDA_SUCCESS;
    drop_store(physical.store);
  }
  uncharge_pinned(physical.bytes);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

// All mappings of [address, address + bytes), which must be whole ones without a gap.
bool whole_mappings(uint64_t address, uint64_t bytes) {
  auto it = state.mappings.find(address);
  uint64_t at = address;
  for (; at < address + bytes; ++it) {
    if (it == state.mappings.end() || it->first != at || !it->second.physical) return false;
    at += it->second.bytes;
  }
  return at == address + bytes;
}

bool fully_mapped(uint64_t address, uint64_t bytes) {
  uint64_t at = address;
  while (at < address + bytes) {
    const Mapping *mapping = find_mapping(at);
    if (!mapping || !mapping->physical) return false;
    at = mapping->address + mapping->bytes;
  }
  return true;
}

CUresult check_location(const CUmemLocation &location) {
  if (location.type == CU_MEM_LOCATION_TYPE_DEVICE)
    return device_of(location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
  return is_host_type(location.type) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

Shown shown_by(CUmemAccess_flags flags) {
  if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return Shown::writable;
  return flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? Shown::readable : Shown::nothing;
}

void give_access(Mapping &mapping, const CUmemAccessDesc &access) {
  if (access.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    mapping.access[access.location.id] = static_cast<uint8_t>(access.flags);
    if (settings.host_access) make_host_reachable(mapping, shown_by(access.flags));
  } else if (mapping.physical->store.base) {
    make_host_reachable(mapping, shown_by(access.flags));
  }
}

}  // namespace

// False where the system gives no address space for it: said, and nothing is left.
bool create_device_memory(Device &device) {
  const bool made = make_store(device.store, "emulated-device", device.bytes);
  if (made)
    device.window =
        show_whole_store(device.store, settings.host_access ? Shown::writable : Shown::nothing);
  if (!device.window) {
    std::fprintf(stderr,
                 "[sluice emulated driver] can't set up %llu bytes of device memory (%s); set a "
                 "smaller SLUICE_EMULATED_MEMORY\n",
                 static_cast<unsigned long long>(device.bytes), std::strerror(errno));
    if (made) drop_store(device.store);
    return false;
  }
  device.spans = {{0, device.bytes}};
  return true;
}

void destroy_device_memory(Device &device) {
  drop_store(device.store);
  free_window(device.window, device.bytes);
}

void pretouch(Device &device) {
  const uint64_t bytes = std::min<uint64_t>(settings.pretouch_bytes, device.bytes);
  if (!bytes || device.pretouched || !use_store(device.store, 0, bytes)) return;
  device.pretouched = true;
  prefer_large_pages(device.store.base, bytes);
  const unsigned count = std::max(1u, std::min(16u, std::thread::hardware_concurrency()));
  const auto touch = [&device, bytes, count](unsigned i) {
    const uint64_t share = round_up(bytes / count + 1, 2u << 20);
    const uint64_t begin = std::min(bytes, i * share), end = std::min(bytes, begin + share);
    for (uint64_t at = begin; at < end; at += kPageBytes) device.store.base[at] = 0;
  };
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (unsigned i = 0; i < count; ++i) {
    try {
      threads.emplace_back(touch, i);
    } catch (const std::system_error &) {  // no more threads: then here
      touch(i);
    }
  }
  for (std::thread &thread : threads) thread.join();
}

const Mapping *find_mapping(uint64_t address) {
  auto it = state.mappings.upper_bound(address);
  if (it == state.mappings.begin()) return nullptr;
  const Mapping &mapping = (--it)->second;
  return address - mapping.address < mapping.bytes ? &mapping : nullptr;
}

bool in_reservation(uint64_t address) {
  auto it = state.reservations.upper_bound(address);
  if (it == state.reservations.begin()) return false;
  --it;
  return address - it->first < it->second.bytes;
}

bool locate(uint64_t address, uint64_t bytes, int device, bool write, std::vector<Piece> &pieces) {
  const uint8_t needed = write ? kReadWrite : kRead;
  std::shared_lock lock(state.memory_mutex);
  while (bytes) {
    const Mapping *mapping = find_mapping(address);
    if (!mapping) {
      bool partial = false;
      const Registration *host = find_registration(address, bytes, nullptr, &partial);
      if (!host || (write && (host->flags & CU_MEMHOSTREGISTER_READ_ONLY) && !host->allocated))
        return false;
      pieces.push_back({reinterpret_cast<char *>(address), bytes});
      return true;
    }
    if (device >= 0 && (mapping->access[device] & needed) != needed) return false;
    const uint64_t inside = address - mapping->address;
    const uint64_t length = std::min(bytes, mapping->bytes - inside);
    char *base = base_of(*mapping) + inside;
    if (!pieces.empty() && pieces.back().base + pieces.back().bytes == base)
      pieces.back().bytes += length;
    else
      pieces.push_back({base, length});
    address += length;
    bytes -= length;
  }
  return true;
}

void *host_alias(uint64_t address, uint64_t bytes) {
  std::vector<Piece> pieces;
  if (!bytes || !locate(address, bytes, -1, false, pieces) || pieces.size() != 1) return nullptr;
  return pieces[0].base;
}

// ---- addresses and handles: entry points -------------------------------------------------------

CUresult mem_address_reserve(CUdeviceptr *out, size_t bytes, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  if (!out || !bytes || bytes % 4096 || hint % 4096 || flags) return CUDA_ERROR_INVALID_VALUE;
  if (alignment & (alignment - 1)) return CUDA_ERROR_INVALID_VALUE;
  alignment = std::max<size_t>(alignment, settings.granularity_bytes);
  if (bytes > (uint64_t{1} << 46) || alignment > (uint64_t{1} << 40))
    return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t address = reserve_addresses(hint, bytes, alignment);
  if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
  std::unique_lock lock(state.memory_mutex);
  state.reservations[address] = {bytes};
  state.reserved_bytes += bytes;
  *out = address;
  return CUDA_SUCCESS;
}

CUresult mem_address_free(CUdeviceptr address, size_t bytes) {
  std::unique_lock lock(state.memory_mutex);
  const auto it = state.reservations.find(address);
  if (it == state.reservations.end()) {
    if (!in_reservation(address))
      report_misuse("cuMemAddressFree of 0x%llx, which isn't reserved (released twice?)", address);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (it->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapped = state.mappings.lower_bound(address);
  if (mapped != state.mappings.end() && mapped->first < address + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  state.reservations.erase(it);
  state.reserved_bytes -= bytes;
  free_addresses(address, bytes);
  return CUDA_SUCCESS;
}

CUresult mem_create(CUmemGenericAllocationHandle *out, size_t bytes,
                    const CUmemAllocationProp *properties, unsigned long long flags) {
  if (!out || !properties || flags || !bytes || !is_granular(bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult answer = check_properties(*properties)) return answer;
  auto physical = std::make_unique<Physical>();
  physical->bytes = bytes;
  physical->properties = *properties;
  std::unique_lock lock(state.memory_mutex);
  if (is_host_type(properties->location.type)) {
    if (CUresult answer = create_host_physical(*physical)) return answer;
  } else {
    physical->device = properties->location.id;
    Device &device = *device_of(physical->device);
    physical->offset = take_memory(device, bytes, settings.granularity_bytes);
    if (physical->offset == UINT64_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
    if (poison_wanted()) std::memset(device.store.base + physical->offset, kPoisonByte, bytes);
  }
  physical->handle = state.next_handle++;
  *out = physical->handle;
  state.physical[physical->handle] = std::move(physical);
  return CUDA_SUCCESS;
}

CUresult mem_release(CUmemGenericAllocationHandle handle) {
  std::unique_lock lock(state.memory_mutex);
  Physical *physical = find_physical(handle);
  if (!physical) {
    report_misuse("cuMemRelease of handle 0x%llx, which isn't held (released twice?)", handle);
    return CUDA_ERROR_INVALID_VALUE;
  }
  --physical->references;
  drop_physical(*physical);
  return CUDA_SUCCESS;
}

CUresult mem_map(CUdeviceptr address, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (flags || !bytes || !is_granular(address) || !is_granular(bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (offset) return is_granular(offset) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(state.memory_mutex);
  Physical *physical = find_physical(handle);
  if (!physical || physical->bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!in_reservation(address) || !in_reservation(address + bytes - 1))
    return CUDA_ERROR_INVALID_VALUE;
  const auto next = state.mappings.lower_bound(address);
  if (find_mapping(address) || (next != state.mappings.end() && next->first < address + bytes))
    return CUDA_ERROR_INVALID_VALUE;
  Mapping &mapping = state.mappings[address];
  mapping.address = address;
  mapping.bytes = bytes;
  mapping.physical = physical;
  mapping.device = physical->device;
  mapping.offset = physical->offset;
  ++physical->mappings;
  return CUDA_SUCCESS;
}

CUresult mem_unmap(CUdeviceptr address, size_t bytes) {
  if (!bytes || !is_granular(address) || !is_granular(bytes)) return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(state.memory_mutex);
  if (!whole_mappings(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  report_pending_use(address, bytes, "unmapped");
  for (auto it = state.mappings.find(address);
       it != state.mappings.end() && it->first < address + bytes;) {
    Physical *physical = it->second.physical;
    it = state.mappings.erase(it);
    --physical->mappings;
    drop_physical(*physical);
  }
  hide_addresses(address, bytes);
  return CUDA_SUCCESS;
}

CUresult mem_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *accesses,
                        size_t count) {
  if (!bytes || !accesses || !count || !is_granular(address) || !is_granular(bytes))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t refused = settings.set_access_not_ready;
  while (refused)
    if (settings.set_access_not_ready.compare_exchange_weak(refused, refused - 1))
      return CUDA_ERROR_NOT_READY;
  for (size_t i = 0; i < count; ++i)
    if (CUresult answer = check_location(accesses[i].location)) return answer;
  std::unique_lock lock(state.memory_mutex);
  if (!fully_mapped(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  auto it = state.mappings.upper_bound(address);
  for (--it; it != state.mappings.end() && it->first < address + bytes; ++it)
    for (size_t i = 0; i < count; ++i) give_access(it->second, accesses[i]);
  return CUDA_SUCCESS;
}

CUresult mem_get_access(unsigned long long *out, const CUmemLocation *location,
                        CUdeviceptr address) {
  if (!out || !location) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult answer = check_location(*location)) return answer;
  std::shared_lock lock(state.memory_mutex);
  const Mapping *mapping = find_mapping(address);
  if (!mapping) return CUDA_ERROR_INVALID_VALUE;
  *out = location->type == CU_MEM_LOCATION_TYPE_DEVICE ? mapping->access[location->id] : 0;
  return CUDA_SUCCESS;
}

CUresult mem_get_allocation_granularity(size_t *out, const CUmemAllocationProp *properties,
                                        CUmemAllocationGranularity_flags) {
  if (!out || !properties) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult answer = check_properties(*properties)) return answer;
  *out = settings.granularity_bytes;
  return CUDA_SUCCESS;
}

CUresult mem_retain_allocation_handle(CUmemGenericAllocationHandle *out, void *address) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock lock(state.memory_mutex);
  const Mapping *mapping = find_mapping(reinterpret_cast<uint64_t>(address));
  if (!mapping || !mapping->physical) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->physical->references;
  *out = mapping->physical->handle;
  return CUDA_SUCCESS;
}

CUresult mem_get_allocation_properties_from_handle(CUmemAllocationProp *out,
                                                   CUmemGenericAllocationHandle handle) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  std::shared_lock lock(state.memory_mutex);
  const Physical *physical = find_physical(handle);
  if (!physical) return CUDA_ERROR_INVALID_VALUE;
  *out = physical->properties;
  return CUDA_SUCCESS;
}

CUresult mem_export_to_shareable_handle(void *, CUmemGenericAllocationHandle,
                                        CUmemAllocationHandleType, unsigned long long) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mem_import_from_shareable_handle(CUmemGenericAllocationHandle *, void *,
                                          CUmemAllocationHandleType) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

// ---- plain allocations -------------------------------------------------------------------------

namespace {

CUresult allocate(Context &context, uint64_t bytes, bool pooled, CUdeviceptr *out) {
  if (bytes > context.device->bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t unit =
      bytes >= settings.granularity_bytes / 2 ? settings.granularity_bytes.load() : kSmallAlignment;
  bytes = round_up(bytes, unit);
  Device &device = *context.device;
  std::unique_lock lock(state.memory_mutex);
  const uint64_t offset = take_memory(device, bytes, unit);
  if (offset == UINT64_MAX) return CUDA_ERROR_OUT_OF_MEMORY;
  if (poison_wanted()) std::memset(device.store.base + offset, kPoisonByte, bytes);
  Mapping &mapping = state.mappings[device.window + offset];
  mapping = {};
  mapping.address = device.window + offset;
  mapping.bytes = bytes;
  mapping.device = device.ordinal;
  mapping.offset = offset;
  mapping.pooled = pooled;
  mapping.context = &context;
  for (uint8_t &access : mapping.access) access = kReadWrite;
  *out = mapping.address;
  return CUDA_SUCCESS;
}

Mapping *find_allocation(uint64_t address) {
  const auto it = state.mappings.find(address);
  return it == state.mappings.end() || it->second.physical ? nullptr : &it->second;
}

CUresult check_allocation(uint64_t address, const char *call, bool mark) {
  std::unique_lock lock(state.memory_mutex);
  Mapping *mapping = find_allocation(address);
  if (!mapping || mapping->releasing) {
    report_misuse("%s of 0x%llx, which isn't allocated (freed twice?)", call,
                  static_cast<unsigned long long>(address));
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (mark) mapping->releasing = true;
  return CUDA_SUCCESS;
}

}  // namespace

void release_allocation(uint64_t address) {
  std::unique_lock lock(state.memory_mutex);
  Mapping *mapping = find_allocation(address);
  if (!mapping) return;
  report_pending_use(address, mapping->bytes, "freed");
  give_memory(*state.devices[static_cast<size_t>(mapping->device)], mapping->offset,
              mapping->bytes);
  state.mappings.erase(address);
}

void free_context_memory(Context &context) {
  std::vector<uint64_t> addresses;
  {
    std::shared_lock lock(state.memory_mutex);
    for (const auto &[address, mapping] : state.mappings)
      if (!mapping.physical && mapping.context == &context) addresses.push_back(address);
  }
  for (uint64_t address : addresses) release_allocation(address);
}

CUresult mem_alloc(CUdeviceptr *out, size_t bytes) {
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  return allocate(*current_context(), bytes, false, out);
}

CUresult mem_free(CUdeviceptr address) {
  if (!address) return CUDA_SUCCESS;
  if (CUresult answer = check_allocation(address, "cuMemFree", false)) return answer;
  drain_context(*current_context());
  release_allocation(address);
  return current_sticky();
}

CUresult mem_alloc_async(CUdeviceptr *out, size_t bytes, CUstream handle) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!out || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult answer = allocate(*stream->context, bytes, true, out);
  if (answer != CUDA_ERROR_OUT_OF_MEMORY) return answer;
  // What was freed on some stream may become free; the pool would wait for it as well.
  drain_context(*stream->context);
  return allocate(*stream->context, bytes, true, out);
}

CUresult mem_alloc_from_pool_async(CUdeviceptr *out, size_t bytes, CUmemoryPool, CUstream handle) {
  return mem_alloc_async(out, bytes, handle);
}

CUresult mem_free_async(CUdeviceptr address, CUstream handle) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (!address) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture) return CUDA_ERROR_NOT_SUPPORTED;
  if (CUresult answer = check_allocation(address, "cuMemFreeAsync", true)) return answer;
  Op op;
  op.kind = OpKind::release;
  op.release.address = address;
  return submit(*stream, op);
}

CUresult mem_get_info(size_t *free_bytes, size_t *total_bytes) {
  if (!free_bytes || !total_bytes) return CUDA_ERROR_INVALID_VALUE;
  const Device &device = *current_context()->device;
  std::shared_lock lock(state.memory_mutex);
  const uint64_t used = device.used_bytes + shared_used_by_others(device.ordinal);
  *total_bytes = device.bytes;
  *free_bytes = used < device.bytes ? device.bytes - used : 0;
  return CUDA_SUCCESS;
}

CUresult mem_get_address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  std::shared_lock lock(state.memory_mutex);
  const Mapping *mapping = find_mapping(address);
  if (!mapping) return CUDA_ERROR_NOT_FOUND;
  if (base) *base = mapping->address;
  if (bytes) *bytes = mapping->bytes;
  return CUDA_SUCCESS;
}

// ---- memory pools: one per device, always the default one --------------------------------------

namespace {

std::atomic<uint64_t> release_threshold[kMaxDevices];
std::atomic<int> reuse_flags[3] = {1, 1, 1};

CUmemoryPool pool_of(const Device &device) {
  return reinterpret_cast<CUmemoryPool>(&release_threshold[device.ordinal]);
}

int pool_device(CUmemoryPool pool) {
  for (const auto &device : state.devices)
    if (pool_of(*device) == pool) return device->ordinal;
  return -1;
}

uint64_t pooled_bytes(int ordinal) {
  std::shared_lock lock(state.memory_mutex);
  uint64_t bytes = 0;
  for (const auto &[address, mapping] : state.mappings)
    if (mapping.pooled && mapping.device == ordinal) bytes += mapping.bytes;
  return bytes;
}

}  // namespace

CUresult device_get_default_mem_pool(CUmemoryPool *out, CUdevice ordinal) {
  const Device *device = device_of(ordinal);
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  *out = pool_of(*device);
  return CUDA_SUCCESS;
}

CUresult mem_pool_get_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  const int ordinal = pool_device(pool);
  if (ordinal < 0 || !value) return CUDA_ERROR_INVALID_VALUE;
  const int number = static_cast<int>(attribute);
  if (number >= 1 && number <= 3)
    *static_cast<int *>(value) = reuse_flags[number - 1];
  else if (number == 4)
    *static_cast<cuuint64_t *>(value) = release_threshold[ordinal];
  else if (number >= 5 && number <= 8)
    *static_cast<cuuint64_t *>(value) = pooled_bytes(ordinal);
  else
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult mem_pool_set_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value) {
  const int ordinal = pool_device(pool);
  if (ordinal < 0 || !value) return CUDA_ERROR_INVALID_VALUE;
  const int number = static_cast<int>(attribute);
  if (number >= 1 && number <= 3)
    reuse_flags[number - 1] = *static_cast<int *>(value);
  else if (number == 4)
    release_threshold[ordinal] = *static_cast<cuuint64_t *>(value);
  else if (number != 6 && number != 8)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult mem_pool_trim_to(CUmemoryPool pool, size_t) {
  return pool_device(pool) < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

}  // namespace emulated

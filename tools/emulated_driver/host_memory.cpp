// Pinned host memory: registrations and allocations, and what a pointer is.
// Locks: the memory mutex. Invariant: registrations never overlap; pinned_bytes is the sum of them
// and of host-located physical handles.
#include <algorithm>

#include "pages.h"
#include "state.h"

namespace emulated {

namespace {

uint64_t page_up(uint64_t value) { return (value + kPageBytes - 1) & ~(kPageBytes - 1); }
uint64_t page_down(uint64_t value) { return value & ~(kPageBytes - 1); }

bool overlaps_registration(uint64_t address, uint64_t bytes) {
  auto it = state.registrations.upper_bound(address);
  if (it != state.registrations.end() && it->first < address + bytes) return true;
  if (it == state.registrations.begin()) return false;
  --it;
  return address - it->first < it->second.bytes;
}

// Pins as the driver does: every page is made present, writable ones for writing.
CUresult populate(uint64_t address, uint64_t bytes, bool read_only) {
  const uint64_t begin = page_down(address), end = page_up(address + bytes);
  return populate_pages(begin, end, read_only) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult resolve_host(const void *pointer, uint64_t *base, Registration *out) {
  std::shared_lock lock(state.memory_mutex);
  bool partial = false;
  const Registration *found =
      find_registration(reinterpret_cast<uint64_t>(pointer), 1, base, &partial);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  *out = *found;
  return CUDA_SUCCESS;
}

CUresult remove(void *pointer, bool allocated, CUresult missing, const char *call) {
  std::unique_lock lock(state.memory_mutex);
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const auto it = state.registrations.find(address);
  if (it == state.registrations.end() || it->second.allocated != allocated) {
    const bool interior = overlaps_registration(address, 1);
    if (!interior)
      report_misuse("%s of %p, which isn't pinned that way (released twice?)", call, pointer);
    return interior ? CUDA_ERROR_INVALID_VALUE : missing;
  }
  report_pending_use(address, it->second.bytes, allocated ? "freed" : "unregistered");
  uncharge_pinned(it->second.bytes);
  const uint64_t bytes = it->second.bytes;
  state.registrations.erase(it);
  if (allocated) free_pages(pointer, bytes);
  return CUDA_SUCCESS;
}

}  // namespace

bool charge_pinned(uint64_t bytes) {
  const uint64_t limit = settings.pinned_limit_bytes;
  if (limit && (state.pinned_bytes > limit || bytes > limit - state.pinned_bytes)) return false;
  state.pinned_bytes += bytes;
  state.peak_pinned_bytes = std::max(state.peak_pinned_bytes, state.pinned_bytes);
  return true;
}

void uncharge_pinned(uint64_t bytes) { state.pinned_bytes -= bytes; }

const Registration *find_registration(uint64_t address, uint64_t bytes, uint64_t *base,
                                      bool *partial) {
  *partial = false;
  auto it = state.registrations.upper_bound(address);
  if (it != state.registrations.begin()) {
    const auto &[start, registration] = *std::prev(it);
    const uint64_t inside = address - start;
    if (inside < registration.bytes) {
      if (base) *base = start;
      if (bytes <= registration.bytes - inside) return &registration;
      *partial = true;
      return nullptr;
    }
  }
  *partial = it != state.registrations.end() && it->first < address + bytes;
  return nullptr;
}

void free_context_host_memory(Context &context) {
  std::unique_lock lock(state.memory_mutex);
  for (auto it = state.registrations.begin(); it != state.registrations.end();) {
    if (it->second.context != &context) {
      ++it;
      continue;
    }
    uncharge_pinned(it->second.bytes);
    if (it->second.allocated) free_pages(reinterpret_cast<void *>(it->first), it->second.bytes);
    it = state.registrations.erase(it);
  }
}

// ---- entry points ------------------------------------------------------------------------------

CUresult mem_host_register(void *pointer, size_t bytes, unsigned flags) {
  const auto address = reinterpret_cast<uint64_t>(pointer);
  if (!pointer || !bytes || flags > 15 || address + bytes < address)
    return CUDA_ERROR_INVALID_VALUE;
  const bool read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY) return CUDA_ERROR_NOT_SUPPORTED;
  if (read_only && feature_absent(kFeatureReadOnlyRegister)) return CUDA_ERROR_NOT_SUPPORTED;
  {
    std::unique_lock lock(state.memory_mutex);
    if (overlaps_registration(address, bytes)) {
      report_misuse("[%p, +0x%llx) overlaps memory that is pinned already", pointer,
                    static_cast<unsigned long long>(bytes));
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (!charge_pinned(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    state.registrations[address] = {bytes, flags, false, current_context()};
  }
  const CUresult answer = populate(address, bytes, read_only);
  if (answer == CUDA_SUCCESS) return answer;
  std::unique_lock lock(state.memory_mutex);
  state.registrations.erase(address);
  uncharge_pinned(bytes);
  return answer;
}

CUresult mem_host_unregister(void *pointer) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  return remove(pointer, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cuMemHostUnregister");
}

CUresult mem_host_alloc(void **out, size_t bytes, unsigned flags) {
  if (!out || !bytes || flags > 7) return CUDA_ERROR_INVALID_VALUE;
  drain_context(*current_context());
  const uint64_t size = page_up(bytes);
  std::unique_lock lock(state.memory_mutex);
  if (!charge_pinned(size)) return CUDA_ERROR_OUT_OF_MEMORY;
  void *memory = allocate_pages(size);
  if (!memory) {
    uncharge_pinned(size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  state.registrations[reinterpret_cast<uint64_t>(memory)] = {size, flags, true, current_context()};
  *out = memory;
  return CUDA_SUCCESS;
}

CUresult mem_alloc_host(void **out, size_t bytes) { return mem_host_alloc(out, bytes, 0); }

CUresult mem_free_host(void *pointer) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  drain_context(*current_context());
  return remove(pointer, true, CUDA_ERROR_INVALID_VALUE, "cuMemFreeHost");
}

CUresult mem_host_get_flags(unsigned *out, void *pointer) {
  Registration found;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult answer = resolve_host(pointer, nullptr, &found)) return answer;
  *out = found.flags;
  return CUDA_SUCCESS;
}

CUresult mem_host_get_device_pointer(CUdeviceptr *out, void *pointer, unsigned flags) {
  Registration found;
  if (!out || flags) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult answer = resolve_host(pointer, nullptr, &found)) return answer;
  *out = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

// ---- what a pointer is -------------------------------------------------------------------------

namespace {

struct Known {
  bool known = false;
  bool host = false;
  uint64_t base = 0;
  uint64_t bytes = 0;
  int device = -1;
  bool pooled = false;
  bool vmm = false;
  Context *context = nullptr;
  uint64_t id = 0;
};

Known look_up(uint64_t address) {
  std::shared_lock lock(state.memory_mutex);
  Known known;
  if (const Mapping *mapping = find_mapping(address)) {
    known = {true,
             mapping->device < 0,
             mapping->address,
             mapping->bytes,
             mapping->device,
             mapping->pooled,
             mapping->physical != nullptr,
             mapping->context,
             mapping->offset + 1};
    if (mapping->physical) known.id = mapping->physical->handle;
    return known;
  }
  bool partial = false;
  if (const Registration *host = find_registration(address, 1, &known.base, &partial)) {
    known.known = known.host = true;
    known.bytes = host->bytes;
    known.context = host->context;
    known.device = host->context->device->ordinal;
    known.id = known.base;
  }
  return known;
}

template <class T>
CUresult answer_with(void *out, T value) {
  *static_cast<T *>(out) = value;
  return CUDA_SUCCESS;
}

CUresult attribute_of(const Known &known, CUpointer_attribute attribute, uint64_t address,
                      void *out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      if (known.vmm) return answer_with<CUcontext>(out, nullptr);
      return answer_with(out, reinterpret_cast<CUcontext>(known.context));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer_with<unsigned>(out, known.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer_with<CUdeviceptr>(out, address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (!known.host) return CUDA_ERROR_INVALID_VALUE;
      return answer_with(out, reinterpret_cast<void *>(address));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return answer_with<unsigned long long>(out, known.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer_with<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer_with<int>(out, known.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return answer_with<unsigned>(out, 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return answer_with<CUdeviceptr>(out, known.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return answer_with<size_t>(out, known.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer_with<unsigned>(out, 1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer_with<unsigned long long>(out, 0);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer_with<unsigned>(out, 3);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return answer_with<unsigned>(out, 0);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

void blank(CUpointer_attribute attribute, void *out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int *>(out) = -2;
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned *>(out) = 0;
      break;
    default:
      *static_cast<uint64_t *>(out) = 0;
      break;
  }
}

}  // namespace

CUresult pointer_get_attribute(void *out, CUpointer_attribute attribute, CUdeviceptr address) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Known known = look_up(address);
  if (!known.known) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(known, attribute, address, out);
}

// Unlike the single form this one answers with nulls for memory that the driver doesn't know.
CUresult pointer_get_attributes(unsigned count, CUpointer_attribute *attributes, void **out,
                                CUdeviceptr address) {
  if (!count || !attributes || !out) return CUDA_ERROR_INVALID_VALUE;
  const Known known = look_up(address);
  for (unsigned i = 0; i < count; ++i)
    if (!known.known || attribute_of(known, attributes[i], address, out[i]) != CUDA_SUCCESS)
      blank(attributes[i], out[i]);
  return CUDA_SUCCESS;
}

}  // namespace emulated

// Copies and memsets at call time: which side each address is on, staging of pageable sources, what
// the driver refuses at once. Threads: any; the memory mutex is held while addresses are
// classified.
#include <cstdlib>
#include <cstring>

#include "state.h"

namespace emulated {

namespace {

// Beyond it the driver's staging buffers are full and the caller waits for its bytes to be taken.
constexpr uint64_t kStagedBytes = 1u << 20;

CUresult host_side(uint64_t address, uint64_t bytes, Side &side) {
  bool partial = false;
  const bool pinned = find_registration(address, bytes, nullptr, &partial) != nullptr;
  if (partial) {
    report_misuse("a copy of [0x%llx, +0x%llx) crosses the edge of a host registration",
                  static_cast<unsigned long long>(address), static_cast<unsigned long long>(bytes));
    return CUDA_ERROR_INVALID_VALUE;
  }
  side = pinned ? Side::pinned : Side::pageable;
  return CUDA_SUCCESS;
}

// Where an address of unknown kind is: unified addressing.
CUresult any_side(uint64_t address, uint64_t bytes, Side &side) {
  side = Side::device;
  if (find_mapping(address) || in_reservation(address)) return CUDA_SUCCESS;
  return host_side(address, bytes, side);
}

enum class Kind { host, device, any };

CUresult classify(Kind kind, uint64_t address, uint64_t bytes, Side &side) {
  side = Side::device;
  if (kind == Kind::device) return CUDA_SUCCESS;
  if (kind == Kind::any) return any_side(address, bytes, side);
  // The address of device memory or of host memory that was mapped like it is legal here too.
  if (find_mapping(address)) return CUDA_SUCCESS;
  return host_side(address, bytes, side);
}

struct Request {
  uint64_t target, source, bytes;
  Kind target_kind, source_kind;
  bool any_device = false;
};

CUresult prepare(const Request &request, CopyOp &copy) {
  copy = {};
  copy.target = request.target;
  copy.source = request.source;
  copy.bytes = request.bytes;
  copy.any_device = request.any_device;
  if (!request.target || !request.source) return CUDA_ERROR_INVALID_VALUE;
  std::shared_lock lock(state.memory_mutex);
  if (CUresult answer =
          classify(request.target_kind, request.target, request.bytes, copy.target_side))
    return answer;
  return classify(request.source_kind, request.source, request.bytes, copy.source_side);
}

void take_sample(CopyOp &copy) {
  if (copy.source_side != Side::pinned || !misuse_on()) return;
  if (pending_host_writer(copy.source, copy.bytes)) return;
  copy.sampled = true;
  copy.sample = sample_bytes(reinterpret_cast<const void *>(copy.source), copy.bytes);
}

// A pageable source is taken over during the call. False: too large for that, the caller must wait.
bool stage(CopyOp &copy) {
  if (copy.bytes > kStagedBytes) return false;
  copy.staged = std::malloc(copy.bytes);
  if (!copy.staged) return false;
  std::memcpy(copy.staged, reinterpret_cast<const void *>(copy.source), copy.bytes);
  return true;
}

CUresult queue_copy(Stream &stream, const Request &request, bool synchronous) {
  if (request.bytes == 0) return CUDA_SUCCESS;
  Op op;
  op.kind = OpKind::copy;
  if (CUresult answer = prepare(request, op.copy)) return answer;
  bool wait = synchronous || op.copy.target_side == Side::pageable;
  if (stream.capture) {
    wait = false;
  } else if (op.copy.source_side == Side::pageable && !wait) {
    wait = !stage(op.copy);
  } else if (!wait) {
    take_sample(op.copy);
  }
  if (CUresult answer = submit(stream, op)) return answer;
  return wait ? synchronize_stream(stream) : CUDA_SUCCESS;
}

CUresult copy_now(const Request &request) {
  Stream *stream = default_stream(*current_context());
  return stream ? queue_copy(*stream, request, true) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult copy_on(CUstream handle, const Request &request) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  return stream ? queue_copy(*stream, request, false) : why;
}

uint64_t address_of(const void *pointer) { return reinterpret_cast<uint64_t>(pointer); }

CUresult fill(Stream *stream, uint64_t target, uint32_t value, uint64_t count, uint8_t width,
              bool synchronous) {
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  if (target % width) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return CUDA_SUCCESS;
  if (!target) return CUDA_ERROR_INVALID_VALUE;
  Op op;
  op.kind = OpKind::fill;
  op.fill = {target, count * width, value, width};
  if (CUresult answer = submit(*stream, op)) return answer;
  return synchronous ? synchronize_stream(*stream) : CUDA_SUCCESS;
}

CUresult fill_on(CUstream handle, uint64_t target, uint32_t value, uint64_t count, uint8_t width) {
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  return stream ? fill(stream, target, value, count, width, false) : why;
}

CUresult fill_now(uint64_t target, uint32_t value, uint64_t count, uint8_t width) {
  return fill(default_stream(*current_context()), target, value, count, width, true);
}

}  // namespace

// ---- entry points ------------------------------------------------------------------------------

CUresult memcpy_any(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy_now({target, source, bytes, Kind::any, Kind::any});
}
CUresult memcpy_any_async(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy_on(stream, {target, source, bytes, Kind::any, Kind::any});
}
CUresult memcpy_htod(CUdeviceptr target, const void *source, size_t bytes) {
  return copy_now({target, address_of(source), bytes, Kind::device, Kind::host});
}
CUresult memcpy_htod_async(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  return copy_on(stream, {target, address_of(source), bytes, Kind::device, Kind::host});
}
CUresult memcpy_dtoh(void *target, CUdeviceptr source, size_t bytes) {
  return copy_now({address_of(target), source, bytes, Kind::host, Kind::device});
}
CUresult memcpy_dtoh_async(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy_on(stream, {address_of(target), source, bytes, Kind::host, Kind::device});
}
CUresult memcpy_dtod(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return copy_now({target, source, bytes, Kind::device, Kind::device});
}
CUresult memcpy_dtod_async(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  return copy_on(stream, {target, source, bytes, Kind::device, Kind::device});
}
CUresult memcpy_peer(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                     CUcontext source_context, size_t bytes) {
  if (!target_context || !source_context) return CUDA_ERROR_INVALID_CONTEXT;
  return copy_now({target, source, bytes, Kind::device, Kind::device, true});
}
CUresult memcpy_peer_async(CUdeviceptr target, CUcontext target_context, CUdeviceptr source,
                           CUcontext source_context, size_t bytes, CUstream stream) {
  if (!target_context || !source_context) return CUDA_ERROR_INVALID_CONTEXT;
  return copy_on(stream, {target, source, bytes, Kind::device, Kind::device, true});
}

CUresult memcpy_batch_async(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes, size_t count,
                            CUmemcpyAttributes *attributes, size_t *attribute_starts,
                            size_t attribute_count, size_t *failed, CUstream handle) {
  if (failed) *failed = SIZE_MAX;
  if (!targets || !sources || !sizes || !count || !attributes || !attribute_starts)
    return CUDA_ERROR_INVALID_VALUE;
  if (!attribute_count || attribute_count > count || attribute_starts[0] != 0)
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < attribute_count; ++i) {
    const unsigned order = attributes[i].srcAccessOrder;
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_INVALID || order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
      return CUDA_ERROR_INVALID_VALUE;
    if (i && attribute_starts[i] <= attribute_starts[i - 1]) return CUDA_ERROR_INVALID_VALUE;
  }
  CUresult why;
  Stream *stream = resolve_stream(handle, &why);
  if (!stream) return why;
  if (stream->kind == StreamKind::legacy) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    CopyOp ignored;
    const Request request{targets[i], sources[i], sizes[i], Kind::any, Kind::any};
    const CUresult answer = sizes[i] ? prepare(request, ignored) : CUDA_ERROR_INVALID_VALUE;
    if (answer == CUDA_SUCCESS) continue;
    if (failed) *failed = i;
    return answer;
  }
  for (size_t i = 0; i < count; ++i)
    if (CUresult answer =
            queue_copy(*stream, {targets[i], sources[i], sizes[i], Kind::any, Kind::any}, false))
      return answer;
  return CUDA_SUCCESS;
}

CUresult memcpy_batch_async_v2(CUdeviceptr *targets, CUdeviceptr *sources, size_t *sizes,
                               size_t count, CUmemcpyAttributes *attributes,
                               size_t *attribute_starts, size_t attribute_count, CUstream handle) {
  return memcpy_batch_async(targets, sources, sizes, count, attributes, attribute_starts,
                            attribute_count, nullptr, handle);
}

CUresult memset_d8(CUdeviceptr target, unsigned char value, size_t count) {
  return fill_now(target, value, count, 1);
}
CUresult memset_d16(CUdeviceptr target, unsigned short value, size_t count) {
  return fill_now(target, value, count, 2);
}
CUresult memset_d32(CUdeviceptr target, unsigned int value, size_t count) {
  return fill_now(target, value, count, 4);
}
CUresult memset_d8_async(CUdeviceptr target, unsigned char value, size_t count, CUstream stream) {
  return fill_on(stream, target, value, count, 1);
}
CUresult memset_d16_async(CUdeviceptr target, unsigned short value, size_t count, CUstream stream) {
  return fill_on(stream, target, value, count, 2);
}
CUresult memset_d32_async(CUdeviceptr target, unsigned int value, size_t count, CUstream stream) {
  return fill_on(stream, target, value, count, 4);
}

}  // namespace emulated

// The memory floor's slice of the C API: thin bodies.
#include "runtime/c_api.h"

#include "alloc/cast_buffers.h"
#include "alloc/device_range.h"
#include "alloc/growable_buffer.h"
#include "alloc/pinned_arenas.h"
#include "runtime/limits.h"
#include "runtime/stream_key.h"

using namespace sluice;

namespace {

bool is_power_of_two(uint64_t value) { return value != 0 && (value & (value - 1)) == 0; }

}  // namespace

extern "C" {

sluice_status sluice_buffer_create(sluice_device *device, uint64_t max_bytes,
                                   sluice_buffer **out_buffer) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_buffer, "out_buffer"));
    SLUICE_TRY(need(device, "device"));
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    auto handle = std::make_unique<sluice_buffer>();
    SLUICE_ASSIGN(handle->buffer, GrowableBuffer::create(*device->device, max_bytes));
    device->device->children().opened(ChildKind::kBuffer);
    *out_buffer = handle.release();
    return {};
  });
}

sluice_status sluice_buffer_grow(sluice_buffer *buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(buffer, "buffer"));
    if (bytes <= buffer->buffer->size_bytes()) return {};
    SLUICE_ASSIGN(auto scope, DriverScope::enter(buffer->buffer->device()));
    return buffer->buffer->grow(bytes);
  });
}

sluice_status sluice_buffer_use(sluice_buffer *buffer, void *stream) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(buffer, "buffer"));
    SLUICE_ASSIGN(auto scope, DriverScope::enter(buffer->buffer->device()));
    return buffer->buffer->use(as_stream(stream));
  });
}

sluice_status sluice_buffer_shrink(sluice_buffer *buffer, uint64_t bytes) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(buffer, "buffer"));
    SLUICE_ASSIGN(auto scope, DriverScope::enter(buffer->buffer->device()));
    SLUICE_TRY(buffer->buffer->shrink(bytes));
    buffer->buffer->device().retirement().poll();
    return {};
  });
}

void sluice_buffer_destroy(sluice_buffer *buffer) {
  if (!buffer || process_is_exiting() || process_was_forked()) return;
  Device &device = buffer->buffer->device();
  const DriverScope scope = DriverScope::insist(device);
  GrowableBuffer::retire(std::move(buffer->buffer));
  delete buffer;
  device.children().closed(ChildKind::kBuffer);
}

uint64_t sluice_buffer_address(const sluice_buffer *buffer) {
  return buffer ? buffer->buffer->address() : 0;
}

uint64_t sluice_buffer_size(const sluice_buffer *buffer) {
  return buffer ? buffer->buffer->size_bytes() : 0;
}

sluice_status sluice_cast_buffer_get(sluice_device *device, void *stream, uint64_t bytes,
                                     uint64_t *out_address) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_address, "out_address"));
    SLUICE_TRY(need(device, "device"));
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    SLUICE_ASSIGN(CastBuffers * buffers, device->device->part<CastBuffers>());
    SLUICE_ASSIGN(*out_address, buffers->get(as_stream(stream), bytes));
    return {};
  });
}

sluice_status sluice_cast_buffer_free_stream(sluice_device *device, void *stream) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    CastBuffers *buffers = device->device->existing_part<CastBuffers>();
    if (!buffers) return {};
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    return buffers->free_stream(as_stream(stream));
  });
}

// Scratch is all that is kept for a stream; uses of buffers are events, which outlive it.
sluice_status sluice_stream_forget(sluice_device *device, void *stream) {
  return sluice_cast_buffer_free_stream(device, stream);
}

sluice_status sluice_device_trim(sluice_device *device, uint64_t *out_bytes) {
  return guarded([&]() -> Status {
    if (out_bytes) *out_bytes = 0;
    SLUICE_TRY(need(device, "device"));
    DeviceMemory *memory = device->device->existing_part<DeviceMemory>();
    if (!memory) return {};
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    device->device->retirement().poll();
    const uint64_t bytes = memory->trim();
    if (out_bytes) *out_bytes = bytes;
    return {};
  });
}

sluice_status sluice_device_set_vram_limit(sluice_device *device, uint64_t bytes) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    Device &inner = *device->device;
    inner.set_vram_limit(bytes);
    DeviceMemory *memory = inner.existing_part<DeviceMemory>();
    if (!memory || inner.vram().used() <= inner.vram().limit()) return {};
    SLUICE_ASSIGN(auto scope, DriverScope::enter(inner));
    inner.retirement().poll();
    memory->trim_to_limit();
    return {};
  });
}

sluice_status sluice_copy_to_host(sluice_device *device, uint64_t device_address, uint64_t bytes,
                                  void *stream, void *host) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    if (bytes == 0) return {};
    SLUICE_TRY(need(host, "host"));
    Device &inner = *device->device;
    SLUICE_ASSIGN(auto scope, DriverScope::enter(inner));
    SLUICE_TRY(identify_stream(inner, as_stream(stream)).take_status());
    // Held until the copy has run.
    SLUICE_ASSIGN(const auto source, find_device_range(inner, device_address, bytes));
    SLUICE_CUDA(inner.driver(), cuMemcpyDtoHAsync,
                fmt::format("{} bytes from {:#x}", bytes, device_address), host, device_address,
                bytes, as_stream(stream));
    inner.counters().stream_waits.add();
    SLUICE_CUDA(inner.driver(), cuStreamSynchronize, "", as_stream(stream));
    return {};
  });
}

sluice_status sluice_pinned_alloc(sluice_device *device, uint64_t bytes, uint64_t alignment,
                                  void **out_memory) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_memory, "out_memory"));
    SLUICE_TRY(need(device, "device"));
    if (bytes == 0 || bytes > kMaxPinnedAllocation)
      return error(SLUICE_INVALID_ARGUMENT, "a pinned allocation of {} bytes; 1 to {} are possible",
                   bytes, kMaxPinnedAllocation);
    if (alignment == 0) alignment = 16;
    if (!is_power_of_two(alignment) || alignment > kMaxPinnedAlignment)
      return error(SLUICE_INVALID_ARGUMENT, "alignment {}: a power of two up to {} is needed",
                   alignment, kMaxPinnedAlignment);
    SLUICE_ASSIGN(PinnedArenas * arenas, device->device->part<PinnedArenas>());
    SLUICE_ASSIGN(auto scope, DriverScope::enter(*device->device));
    SLUICE_ASSIGN(*out_memory, arenas->allocate(bytes, alignment));
    device->device->children().opened(ChildKind::kPinnedAllocation);
    return {};
  });
}

sluice_status sluice_pinned_free(sluice_device *device, void *memory) {
  if (!memory || process_is_exiting() || process_was_forked()) return SLUICE_OK;
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    PinnedArenas *arenas = device->device->existing_part<PinnedArenas>();
    if (!arenas)
      return error(SLUICE_INVALID_ARGUMENT, "{} was not allocated by sluice_pinned_alloc", memory);
    SLUICE_TRY(arenas->free(memory));
    device->device->children().closed(ChildKind::kPinnedAllocation);
    return {};
  });
}

}  // extern "C"

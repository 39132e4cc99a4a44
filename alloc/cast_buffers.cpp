#include "alloc/cast_buffers.h"

#include <algorithm>

namespace sluice {

Result<std::unique_ptr<CastBuffers>> CastBuffers::create(Device &device) {
  return std::unique_ptr<CastBuffers>(new CastBuffers(device));
}

CastBuffers::~CastBuffers() { static_cast<void>(close()); }

// The streams may be gone already, and work of theirs may still run: the context as a whole is
// waited for. Closing a device is the one place where that is done.
Status CastBuffers::close() {
  const std::lock_guard lock(mutex_);
  if (entries_.empty()) return {};
  wait_for_context(device_);
  entries_.clear();
  return {};
}

std::shared_ptr<GrowableBuffer> CastBuffers::find(const StreamKey &key) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry &entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : found->buffer;
}

Result<std::shared_ptr<GrowableBuffer>> CastBuffers::find_or_make(const StreamKey &key) {
  const std::lock_guard lock(mutex_);
  if (auto buffer = find(key)) return buffer;
  entries_.reserve(entries_.size() + 1);
  SLUICE_ASSIGN(auto buffer, GrowableBuffer::create(device_, device_.facts().total_bytes));
  entries_.push_back({key, buffer});
  return buffer;
}

Result<uint64_t> CastBuffers::get(CUstream stream, uint64_t bytes) {
  if (bytes == 0 || bytes > device_.facts().total_bytes)
    return error(SLUICE_INVALID_ARGUMENT, "a cast buffer of {} bytes; 1 to {} are possible", bytes,
                 device_.facts().total_bytes);
  SLUICE_ASSIGN(const StreamKey key, stream_key(device_, stream));
  std::shared_ptr<GrowableBuffer> buffer;
  {
    const std::lock_guard lock(mutex_);
    buffer = find(key);
  }
  if (!buffer || buffer->size_bytes() < bytes) {
    SLUICE_TRY(identify_stream(device_, stream).take_status());  // refuses a capturing stream
    SLUICE_ASSIGN(buffer, find_or_make(key));
    SLUICE_TRY(buffer->grow(bytes));
  }
  return buffer->address();
}

Status CastBuffers::free_stream(CUstream stream) {
  auto identified = identify_stream(device_, stream);
  if (!identified.ok() && identified.status().record().native_code == CUDA_ERROR_INVALID_HANDLE)
    return {};  // no stream of this driver, so nothing is kept for it
  SLUICE_ASSIGN(const StreamKey key, std::move(identified));
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry &entry) { return entry.key == key; });
  if (found == entries_.end()) return {};
  SLUICE_TRY(found->buffer->use(stream));
  GrowableBuffer::retire(std::move(found->buffer));
  entries_.erase(found);
  return {};
}

}  // namespace sluice

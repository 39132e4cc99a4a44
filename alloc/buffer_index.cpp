#include "alloc/buffer_index.h"

#include "alloc/growable_buffer.h"

namespace sluice {

Status check_mapped(const GrowableBuffer &buffer, uint64_t address, uint64_t bytes) {
  const uint64_t offset = address - buffer.address();
  const uint64_t size = buffer.size_bytes();
  if (offset <= size && bytes <= size - offset) return {};
  return error(SLUICE_INVALID_ARGUMENT,
               "{} bytes at {:#x} pass the mapped part of their buffer, which ends at {:#x}", bytes,
               address, buffer.address() + size);
}

void BufferIndex::add(const std::shared_ptr<GrowableBuffer> &buffer) {
  const std::lock_guard lock(mutex_);
  by_address_.emplace(buffer->address(), buffer);
}

void BufferIndex::remove(const GrowableBuffer &buffer) noexcept {
  const std::lock_guard lock(mutex_);
  by_address_.erase(buffer.address());
}

std::shared_ptr<GrowableBuffer> BufferIndex::find(uint64_t address) {
  const std::lock_guard lock(mutex_);
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return nullptr;
  std::shared_ptr<GrowableBuffer> buffer = std::prev(after)->second.lock();
  if (!buffer || address - buffer->address() >= buffer->max_bytes()) return nullptr;
  return buffer;
}

}  // namespace sluice

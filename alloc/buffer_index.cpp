#include "alloc/buffer_index.h"

#include "alloc/growable_buffer.h"

namespace sluice {

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
  return buffer && buffer->has(address) ? buffer : nullptr;
}

}  // namespace sluice

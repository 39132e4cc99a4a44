#include "alloc/growable_buffer.h"

#include <algorithm>
#include <thread>

#include "runtime/limits.h"

namespace sluice {

class GrowableBuffer::Tail final : public Retired {
 public:
  Tail(std::shared_ptr<GrowableBuffer> buffer, uint64_t offset)
      : buffer_(std::move(buffer)), offset_(offset) {}
  void release() noexcept override { buffer_->release_tail(offset_); }

 private:
  std::shared_ptr<GrowableBuffer> buffer_;
  uint64_t offset_;
};

class GrowableBuffer::Whole final : public Retired {
 public:
  void release() noexcept override { buffer.reset(); }
  std::shared_ptr<GrowableBuffer> buffer;
};

GrowableBuffer::GrowableBuffer(DeviceMemory &memory, BufferIndex &index, AddressRange range,
                               uint64_t max_bytes)
    : device_(memory.device()),
      memory_(memory),
      index_(index),
      range_(std::move(range)),
      max_bytes_(max_bytes),
      whole_(std::make_unique<Whole>()) {}

GrowableBuffer::~GrowableBuffer() { index_.remove(*this); }

Result<std::shared_ptr<GrowableBuffer>> GrowableBuffer::create(Device &device, uint64_t max_bytes) {
  if (max_bytes == 0 || max_bytes > kMaxBufferBytes)
    return error(SLUICE_INVALID_ARGUMENT, "a buffer of {} bytes; 1 to {} are possible", max_bytes,
                 kMaxBufferBytes);
  SLUICE_ASSIGN(DeviceMemory * memory, device.part<DeviceMemory>());
  SLUICE_ASSIGN(BufferIndex * index, device.part<BufferIndex>());
  SLUICE_ASSIGN(AddressRange range, AddressRange::reserve(device, max_bytes));
  std::shared_ptr<GrowableBuffer> buffer(
      new GrowableBuffer(*memory, *index, std::move(range), max_bytes));
  index->add(buffer);
  return buffer;
}

Status GrowableBuffer::grow(uint64_t bytes) {
  if (bytes > max_bytes_)
    return error(SLUICE_INVALID_ARGUMENT, "growing a buffer to {} bytes; its maximum is {}", bytes,
                 max_bytes_);
  std::unique_lock lock(mutex_);
  if (bytes <= size_.load(std::memory_order_relaxed)) return {};
  SLUICE_TRY(wait_for_tail(lock));
  SLUICE_TRY(range_.map_up_to(memory_, bytes));
  size_.store(range_.mapped_bytes(), std::memory_order_release);
  return {};
}

// New work must not write to the tail while old work still reads it.
Status GrowableBuffer::wait_for_tail(std::unique_lock<std::mutex> &lock) {
  while (waiting_tails_ != 0) {
    const auto events = tail_events_;
    lock.unlock();
    for (const auto &event : events) {
      device_.counters().stream_waits.add();
      SLUICE_TRY(event->wait_on_host());
    }
    device_.retirement().poll();
    std::this_thread::yield();  // another thread may be releasing it right now
    lock.lock();
  }
  return {};
}

void GrowableBuffer::drop_passed_uses() noexcept {
  std::erase_if(uses_, [](const Use &use) {
    auto passed = use.event->passed();
    return passed.ok() && passed.value();
  });
}

Status GrowableBuffer::use(CUstream stream) {
  SLUICE_ASSIGN(const StreamKey key, identify_stream(device_, stream));
  const std::lock_guard lock(mutex_);
  if (!whole_) return error(SLUICE_INVALID_STATE, "the buffer was destroyed");
  Use *known = key.unique ? find_use(key) : nullptr;
  // An event that a waiting tail shares stays as it is: recorded again, it would never pass while
  // the stream is kept busy.
  if (known && known->event.use_count() == 1) return known->event->record(stream);
  auto event = std::make_shared<Event>();
  SLUICE_ASSIGN(*event, device_.events().take());
  SLUICE_TRY(event->record(stream));
  if (known) {
    known->event = std::move(event);
    return {};
  }
  drop_passed_uses();
  uses_.reserve(uses_.size() + 1);
  whole_->events.reserve(uses_.size() + 1);
  uses_.push_back({key, std::move(event)});
  return {};
}

GrowableBuffer::Use *GrowableBuffer::find_use(const StreamKey &key) noexcept {
  const auto found =
      std::find_if(uses_.begin(), uses_.end(), [&](const Use &use) { return use.key == key; });
  return found == uses_.end() ? nullptr : &*found;
}

void GrowableBuffer::read_begins() noexcept {
  const std::lock_guard lock(mutex_);
  ++reads_;
}

void GrowableBuffer::read_ends() noexcept {
  const std::lock_guard lock(mutex_);
  --reads_;
}

Status GrowableBuffer::shrink(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t offset = range_.cut_offset(bytes);
  if (offset >= size_.load(std::memory_order_relaxed)) return {};
  if (reads_ != 0)
    return error(SLUICE_BUSY, "{} reads into the buffer are in flight; wait for them first",
                 reads_);
  auto tail = std::make_unique<Tail>(shared_from_this(), offset);
  for (const Use &use : uses_) tail->events.push_back(use.event);
  tail_events_.insert(tail_events_.end(), tail->events.begin(), tail->events.end());
  size_.store(offset, std::memory_order_release);
  ++waiting_tails_;
  device_.retirement().add(std::move(tail));
  return {};
}

void GrowableBuffer::release_tail(uint64_t offset) noexcept {
  const std::lock_guard lock(mutex_);
  range_.unmap_from(memory_, offset, AddressRange::Afterwards::kPool);
  if (--waiting_tails_ == 0) tail_events_.clear();
}

std::unique_ptr<GrowableBuffer::Whole> GrowableBuffer::take_whole() noexcept {
  const std::lock_guard lock(mutex_);
  for (Use &use : uses_) whole_->events.push_back(std::move(use.event));
  uses_.clear();
  return std::move(whole_);
}

void GrowableBuffer::retire(std::shared_ptr<GrowableBuffer> buffer) noexcept {
  Retirement &retirement = buffer->device_.retirement();
  std::unique_ptr<Whole> whole = buffer->take_whole();
  whole->buffer = std::move(buffer);
  retirement.add(std::move(whole));
  retirement.poll();
}

}  // namespace sluice

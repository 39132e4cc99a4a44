// Growable VRAM behind one address (R1). Its tail and its whole are given back in stream order.
//
// Threads: any; one mutex a buffer serialises growing, shrinking and uses. It is held across
// mapping calls, which don't wait for the device. A thread that holds it may release the tails of
// other buffers, whose mutexes are then never held by someone who waits for this one: growing
// drops the mutex while its own tail is waiting.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "alloc/address_range.h"
#include "alloc/buffer_index.h"
#include "runtime/retirement.h"
#include "runtime/stream_key.h"

namespace sluice {

class GrowableBuffer : public std::enable_shared_from_this<GrowableBuffer> {
 public:
  // All need the device's context current.
  static Result<std::shared_ptr<GrowableBuffer>> create(Device &device, uint64_t max_bytes);
  ~GrowableBuffer();

  Status grow(uint64_t bytes);
  // Notes that the work queued on `stream` now uses the buffer. INVALID_STATE once it is retired:
  // then its memory lives until the last reference is dropped.
  Status use(CUstream stream);
  // BUSY while reads into it are in flight.
  Status shrink(uint64_t bytes);
  void read_begins() noexcept;
  void read_ends() noexcept;
  // Gives everything back once the noted work has passed. The caller's reference ends here.
  static void retire(std::shared_ptr<GrowableBuffer> buffer) noexcept;

  Device &device() const noexcept { return device_; }
  uint64_t address() const noexcept { return range_.address(); }
  // Its addresses: the maximum, rounded up to whole handles.
  bool has(uint64_t address) const noexcept {
    return address - range_.address() < range_.reserved_bytes();
  }
  // What can be used: mapped, and not waiting to be given back.
  uint64_t size_bytes() const noexcept { return size_.load(std::memory_order_acquire); }

 private:
  class Tail;
  class Whole;
  struct Use {
    StreamKey key;
    std::shared_ptr<Event> event;
  };

  GrowableBuffer(DeviceMemory &memory, BufferIndex &index, AddressRange range, uint64_t max_bytes);
  Use *find_use(const StreamKey &key) noexcept;
  void drop_passed_uses() noexcept;
  std::unique_ptr<Whole> take_whole() noexcept;
  void release_tail(uint64_t offset) noexcept;
  Status wait_for_tail(std::unique_lock<std::mutex> &lock);

  Device &device_;
  DeviceMemory &memory_;
  BufferIndex &index_;
  AddressRange range_;
  const uint64_t max_bytes_;
  std::atomic<uint64_t> size_{0};
  std::mutex mutex_;
  std::vector<Use> uses_;
  uint32_t waiting_tails_ = 0;
  std::vector<std::shared_ptr<Event>> tail_events_;  // what the waiting tails wait for
  uint64_t reads_ = 0;
  std::unique_ptr<Whole> whole_;  // made ahead, with room for the uses: retiring can't fail
};

}  // namespace sluice

struct sluice_buffer {
  std::shared_ptr<sluice::GrowableBuffer> buffer;
};

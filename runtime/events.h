// CUDA events, pooled per device.
//
// Threads: any. An Event goes back to the pool when it is dropped; it may then be recorded again,
// so it is dropped only when nobody waits for it any more (a wait that is already queued on a
// stream keeps what it captured).
#pragma once

#include <cuda.h>

#include <mutex>
#include <utility>
#include <vector>

#include "runtime/status.h"

namespace sluice {

class Device;
class EventPool;

class Event {
 public:
  Event() = default;
  Event(Event &&other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), event_(other.event_) {}
  Event &operator=(Event &&other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event();

  explicit operator bool() const noexcept { return pool_ != nullptr; }
  CUevent get() const noexcept { return event_; }

  // All need the device's context current (DriverScope).
  Status record(CUstream stream) noexcept;
  Result<bool> passed() const noexcept;
  Status wait_on_host() const noexcept;  // counted by the caller
  Status make_wait(CUstream stream) const noexcept;

 private:
  friend class EventPool;
  Event(EventPool *pool, CUevent event) noexcept : pool_(pool), event_(event) {}
  EventPool *pool_ = nullptr;
  CUevent event_ = nullptr;
};

class EventPool {
 public:
  explicit EventPool(Device &device) noexcept : device_(device) {}
  ~EventPool();

  Result<Event> take() noexcept;
  Device &device() const noexcept { return device_; }

 private:
  friend class Event;
  void put(CUevent event) noexcept;

  Device &device_;
  std::mutex mutex_;
  std::vector<CUevent> free_;
  size_t made_ = 0;
};

}  // namespace sluice

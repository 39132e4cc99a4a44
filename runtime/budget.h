// A cap in bytes that holds at all times: what would pass it is refused before it is allocated.
//
// Threads: any. Lowering the limit below what is used takes nothing away; it refuses more.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace sluice {

class Budget {
 public:
  explicit Budget(uint64_t limit) noexcept : limit_(limit) {}

  bool try_charge(uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    if (used_ > limit_ || bytes > limit_ - used_) return false;
    used_ += bytes;
    return true;
  }
  // After what was charged has been allocated; what is refused then never counts as a peak.
  void note_peak() noexcept {
    const std::lock_guard lock(mutex_);
    if (used_ > peak_) peak_ = used_;
  }
  void release(uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
  }
  void set_limit(uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    limit_ = bytes;
  }
  uint64_t limit() const noexcept { return read(limit_); }
  uint64_t used() const noexcept { return read(used_); }
  uint64_t peak() const noexcept { return read(peak_); }
  uint64_t room() const noexcept {
    const std::lock_guard lock(mutex_);
    return used_ < limit_ ? limit_ - used_ : 0;
  }

 private:
  uint64_t read(const uint64_t &value) const noexcept {
    const std::lock_guard lock(mutex_);
    return value;
  }

  mutable std::mutex mutex_;
  uint64_t limit_;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace sluice

// Fixed storage for objects whose addresses are handles: never moved, never given back to the
// system, so that a stale handle can be told from a live one without touching foreign memory. The
// object freed last is handed out first, as drivers do. Threads: any. Invariant: an object is
// constructed once and stays constructed; users reset what they need.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "pages.h"

namespace emulated {

template <class T, size_t kCapacity>
class Slab {
 public:
  T *take() {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      T *object = free_.back();
      free_.pop_back();
      return object;
    }
    if (used_ == kCapacity || !reserve()) return nullptr;
    if (used_ % kStepObjects == 0) {
      if (!use_room(base_ + used_, kStepObjects * sizeof(T))) return nullptr;
      register_leak_roots(base_ + used_, kStepObjects * sizeof(T));
    }
    T *object = new (base_ + used_) T;
    used_.store(used_ + 1, std::memory_order_release);
    return object;
  }
  void give_back(T *object) {
    std::lock_guard lock(mutex_);
    free_.push_back(object);
  }
  // True when handle is the address of an object that was handed out at some time.
  bool owns(const void *handle) const {
    const auto address = reinterpret_cast<uintptr_t>(handle);
    const auto base = reinterpret_cast<uintptr_t>(base_);
    const size_t used = used_.load(std::memory_order_acquire);
    return used != 0 && address >= base && address < base + used * sizeof(T) &&
           (address - base) % sizeof(T) == 0;
  }
  size_t size() const { return used_.load(std::memory_order_acquire); }
  T &operator[](size_t i) { return base_[i]; }

 private:
  static constexpr size_t kStepObjects = 64;  // asked of the system at a time
  static_assert(kCapacity % kStepObjects == 0);

  bool reserve() {
    if (base_) return true;
    base_ = static_cast<T *>(reserve_room(kCapacity * sizeof(T)));
    return base_ != nullptr;
  }
  std::mutex mutex_;
  T *base_ = nullptr;
  std::atomic<size_t> used_{0};
  std::vector<T *> free_;
};

}  // namespace emulated

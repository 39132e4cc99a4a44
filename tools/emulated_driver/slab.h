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

#include <sys/mman.h>

// There when the process runs under the leak checker, which doesn't look into mapped memory by
// itself.
extern "C" __attribute__((weak)) void __lsan_register_root_region(const void *, size_t);

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
    if (used_ % kRootObjects == 0 && __lsan_register_root_region)
      __lsan_register_root_region(base_ + used_, kRootObjects * sizeof(T));
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
  static constexpr size_t kRootObjects = 64;  // registered with the leak checker at a time
  static_assert(kCapacity % kRootObjects == 0);

  bool reserve() {
    if (base_) return true;
    void *memory = mmap(nullptr, kCapacity * sizeof(T), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    base_ = static_cast<T *>(memory);
    return true;
  }
  std::mutex mutex_;
  T *base_ = nullptr;
  std::atomic<size_t> used_{0};
  std::vector<T *> free_;
};

}  // namespace emulated

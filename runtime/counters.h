// Counters of one runtime, from the public header's list.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/sluice.h"

namespace sluice {

class Counter {
 public:
  void add(uint64_t amount = 1) noexcept { value_.fetch_add(amount, std::memory_order_relaxed); }
  void subtract(uint64_t amount) noexcept { value_.fetch_sub(amount, std::memory_order_relaxed); }
  uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct Counters {
#define SLUICE_COUNTER(name, meaning) Counter name;
  SLUICE_STATS_LIST(SLUICE_COUNTER)
#undef SLUICE_COUNTER
};

}  // namespace sluice

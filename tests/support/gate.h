// Where a test holds up calls of other threads, and sees in which order they came.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

namespace support {

// Open at first.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t to_pass = UINT64_MAX;  // so many go through
  std::vector<uint64_t> offsets;  // of what came since it was shut, in order

  void shut() {
    const std::lock_guard lock(mutex);
    to_pass = 0;
    offsets.clear();
  }
  void let_through(uint64_t count = UINT64_MAX) {
    const std::lock_guard lock(mutex);
    to_pass = count;
    changed.notify_all();
  }
  void pass(uint64_t offset) {
    std::unique_lock lock(mutex);
    offsets.push_back(offset);
    changed.notify_all();
    changed.wait(lock, [&] { return to_pass != 0; });
    if (to_pass != UINT64_MAX) --to_pass;
  }
  void wait_for_first() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !offsets.empty(); });
  }
  bool first_comes_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, time, [&] { return !offsets.empty(); });
  }
};

}  // namespace support

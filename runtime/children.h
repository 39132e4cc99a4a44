// What is still open in a runtime or on a device, by kind: its owner is closed only without any.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "runtime/status.h"

namespace sluice {

enum class ChildKind { kDevice, kFile, kBuffer, kPinnedAllocation, kRead, kCount };

class Children {
 public:
  void opened(ChildKind kind) noexcept { count(kind).fetch_add(1, std::memory_order_relaxed); }
  void closed(ChildKind kind) noexcept { count(kind).fetch_sub(1, std::memory_order_release); }

  // "2 buffers, 1 read"; empty when nothing is open.
  std::string names() const {
    static constexpr const char *kNames[] = {"device", "file", "buffer", "pinned allocation",
                                             "read"};
    static_assert(std::size(kNames) == static_cast<size_t>(ChildKind::kCount));
    std::string text;
    for (size_t i = 0; i < counts_.size(); ++i) {
      const uint64_t open = counts_[i].load(std::memory_order_acquire);
      if (open == 0) continue;
      text +=
          fmt::format("{}{} {}{}", text.empty() ? "" : ", ", open, kNames[i], open == 1 ? "" : "s");
    }
    return text;
  }

 private:
  std::atomic<uint64_t> &count(ChildKind kind) noexcept {
    return counts_[static_cast<size_t>(kind)];
  }
  std::array<std::atomic<uint64_t>, static_cast<size_t>(ChildKind::kCount)> counts_{};
};

// Counts as open for as long as it lives.
class OpenChild {
 public:
  OpenChild(Children &children, ChildKind kind) noexcept : children_(children), kind_(kind) {
    children_.opened(kind_);
  }
  ~OpenChild() { children_.closed(kind_); }
  OpenChild(const OpenChild &) = delete;
  OpenChild &operator=(const OpenChild &) = delete;

 private:
  Children &children_;
  const ChildKind kind_;
};

}  // namespace sluice

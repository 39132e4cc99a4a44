// How far each range of a read has come, so that one can be waited for without the others.
//
// Threads: arrived() from several reading threads at once. Who sees a range as arrived sees its
// host bytes and the threads that queued its copies.
#pragma once

#include <atomic>
#include <memory>

#include "io/read_plan.h"

namespace sluice {

class RangeProgress {
 public:
  // `plan` stays as it is; `count` ranges. Throws std::bad_alloc.
  void begin(const ReadPlan &plan, size_t count);

  size_t count() const noexcept { return count_; }
  bool has_arrived(size_t range) const noexcept {
    return ranges_[range].pieces_left.load(std::memory_order_acquire) == 0;
  }
  // The reading threads on whose streams its copies are, one bit each.
  uint64_t copied_by(size_t range) const noexcept {
    return ranges_[range].copied_by.load(std::memory_order_relaxed);
  }

  // The bytes of `piece` are in host memory and its copies are queued. Calls complete(range) for
  // each range whose last piece it was; false where there is none.
  template <typename Complete>
  bool arrived(const ReadPiece &piece, uint64_t copied_by, Complete &&complete) noexcept {
    bool any = false;
    for (uint32_t i = 0; i < piece.range_count; ++i) {
      const uint32_t index = plan_->range_order[piece.first_range + i];
      Range &range = ranges_[index];
      range.copied_by.fetch_or(copied_by, std::memory_order_relaxed);
      if (range.pieces_left.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      any = true;
      complete(index);
    }
    return any;
  }

 private:
  struct Range {
    std::atomic<uint32_t> pieces_left{0};
    std::atomic<uint64_t> copied_by{0};
  };
  const ReadPlan *plan_ = nullptr;
  std::unique_ptr<Range[]> ranges_;
  size_t count_ = 0;
};

}  // namespace sluice

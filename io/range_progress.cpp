#include "io/range_progress.h"

namespace sluice {

void RangeProgress::begin(const ReadPlan &plan, size_t count) {
  ranges_ = std::make_unique<Range[]>(count);
  plan_ = &plan;
  count_ = count;
  for (const ReadPiece &piece : plan.pieces)
    for (uint32_t i = 0; i < piece.range_count; ++i)
      ranges_[plan.range_order[piece.first_range + i]].pieces_left.fetch_add(
          1, std::memory_order_relaxed);
}

}  // namespace sluice

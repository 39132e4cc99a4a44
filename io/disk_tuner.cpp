#include "io/disk_tuner.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice {
namespace {

constexpr uint32_t kFirstDepth = 8;
constexpr uint32_t kWindowReads = 24;
constexpr double kClearlyFaster = 1.05;
constexpr double kAsFast = 0.98;
// The way is changed only for a clear gain: reading through the page cache costs others.
constexpr double kWorthTheCache = 1.2;
constexpr double kFallen = 0.6;
constexpr uint32_t kSlowWindows = 4;

}  // namespace

DiskTuner::DiskTuner(uint32_t max_depth, bool both_ways) noexcept
    : max_depth_(std::max(max_depth, 1u)),
      both_ways_(both_ways),
      depth_(std::min(kFirstDepth, max_depth_)),
      best_depth_(depth_) {}

void DiskTuner::begin_window() noexcept {
  to_skip_ = depth_;
  window_reads_ = 0;
  window_bytes_ = 0;
}

void DiskTuner::ended(uint64_t bytes, uint64_t now_ns) noexcept {
  if (window_begins_) {
    window_begins_ = false;
    begin_window();
  }
  if (to_skip_ != 0) {
    if (--to_skip_ == 0) window_start_ns_ = now_ns;
    return;
  }
  window_bytes_ += bytes;
  if (++window_reads_ < kWindowReads) return;
  const uint64_t elapsed = std::max<uint64_t>(now_ns - window_start_ns_, 1);
  judge(static_cast<double>(window_bytes_) / static_cast<double>(elapsed));
  begin_window();
}

void DiskTuner::judge(double rate) noexcept {
  switch (phase_) {
    case Phase::kMore:
      if (best_rate_ == 0 || rate > best_rate_ * kClearlyFaster) {
        best_rate_ = rate;
        best_depth_ = depth_;
        if (depth_ == max_depth_) return try_fewer();
        depth_ = std::min(depth_ * 2, max_depth_);
        return;
      }
      return try_fewer();
    case Phase::kFewer:
      if (rate < best_rate_ * kAsFast) return try_other_way();
      best_rate_ = std::max(best_rate_, rate);
      best_depth_ = depth_;
      return try_fewer();
    case Phase::kOtherWay:
      other_rate_ = rate;
      if (rate > best_rate_ * kWorthTheCache)
        std::swap(other_rate_, best_rate_);
      else
        buffered_ = false;
      return settle();
    case Phase::kSettled:
      slow_windows_ = rate < best_rate_ * kFallen ? slow_windows_ + 1 : 0;
      if (slow_windows_ < kSlowWindows) return;
      slow_windows_ = 0;
      best_rate_ = 0;
      buffered_ = false;
      phase_ = Phase::kMore;
      return;
  }
}

void DiskTuner::try_fewer() noexcept {
  phase_ = Phase::kFewer;
  if (best_depth_ <= 1) return try_other_way();
  depth_ = best_depth_ / 2;
}

void DiskTuner::try_other_way() noexcept {
  depth_ = best_depth_;
  if (!both_ways_) return settle();
  phase_ = Phase::kOtherWay;
  buffered_ = true;
}

void DiskTuner::settle() noexcept {
  depth_ = best_depth_;
  phase_ = Phase::kSettled;
}

std::string DiskTuner::describe() const {
  if (best_rate_ == 0) return "";
  std::string text = fmt::format("{} read{} at once, {:.1f} GB/s", best_depth_,
                                 best_depth_ == 1 ? "" : "s", best_rate_);
  if (other_rate_ != 0)
    text += fmt::format("; {} reads gave {:.1f}", buffered_ ? "direct" : "buffered", other_rate_);
  return text;
}

}  // namespace sluice

// How a disk is read best, found out while reading it: how many reads at once, and whether around
// the page cache or through it.
//
// It is told of each read that ends, and compares windows of reads: first more at once as long as
// that is faster, then fewer as long as that isn't slower, then the other way, if there is one.
// What was found stays until the rate falls far below what it was.
//
// Threads: the owner serialises. No clock and no files: a pure function of what it is told.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

class DiskTuner {
 public:
  // At most `max_depth` reads at once. With `both_ways` direct reads are compared with buffered
  // ones.
  DiskTuner(uint32_t max_depth, bool both_ways) noexcept;

  uint32_t depth() const noexcept { return depth_; }
  bool buffered() const noexcept { return buffered_; }  // though direct reads would work

  // A read of `bytes` ended at `now_ns`; it was begun the way that was asked for then.
  void ended(uint64_t bytes, uint64_t now_ns) noexcept;
  // Nothing is being read: the time until the next read isn't the disk's.
  void pause() noexcept { window_begins_ = true; }

  // "8 reads at once, 2.1 GB/s; buffered reads gave 1.4"; "" before anything was measured.
  std::string describe() const;

 private:
  enum class Phase { kMore, kFewer, kOtherWay, kSettled };

  void judge(double rate) noexcept;
  void try_fewer() noexcept;
  void try_other_way() noexcept;
  void settle() noexcept;
  void begin_window() noexcept;

  const uint32_t max_depth_;
  const bool both_ways_;
  Phase phase_ = Phase::kMore;
  uint32_t depth_;
  bool buffered_ = false;

  uint32_t best_depth_;
  double best_rate_ = 0;   // bytes a nanosecond, at the best depth
  double other_rate_ = 0;  // of the way that isn't taken
  uint32_t slow_windows_ = 0;

  bool window_begins_ = true;
  uint32_t to_skip_ = 0;  // reads that were begun before the window
  uint32_t window_reads_ = 0;
  uint64_t window_bytes_ = 0;
  uint64_t window_start_ns_ = 0;
};

}  // namespace sluice

// What a read's ranges must be before anything is done with them.
#pragma once

#include <span>
#include <string>

#include "runtime/status.h"

namespace sluice {

// Some ranges of a read, and what the first one's index is among all of its.
struct RangeList {
  std::span<const sluice_read_range> ranges;
  size_t first_index = 0;

  size_t size() const noexcept { return ranges.size(); }
  const sluice_read_range &operator[](size_t i) const noexcept { return ranges[i]; }
};

// "range 3 ('model.norm.weight')", for errors.
std::string range_name(RangeList ranges, size_t index);

// Each inside its file and with a destination; no two destinations on one device overlap, nor in
// host memory. One list for each device.
Status check_ranges(std::span<const RangeList> lists);

}  // namespace sluice

// What a read's ranges must be before anything is done with them.
#pragma once

#include <span>
#include <string>

#include "runtime/status.h"

namespace sluice {

// "range 3 ('model.norm.weight')", for errors.
std::string range_name(std::span<const sluice_read_range> ranges, size_t index);

// Each inside its file and with a destination; no two destinations overlap.
Status check_ranges(std::span<const sluice_read_range> ranges);

}  // namespace sluice

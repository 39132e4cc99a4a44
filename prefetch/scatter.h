// Spreading what must move evenly over what stays.
#pragma once

#include <cstdint>

namespace sluice {

// The ceil(log2 count) bits of `index` in reverse; 0 when index >= count.
uint64_t bit_reverse(uint64_t index, uint64_t count) noexcept;

}  // namespace sluice

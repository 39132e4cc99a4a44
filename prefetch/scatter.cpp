#include "prefetch/scatter.h"

#include <bit>

namespace sluice {

uint64_t bit_reverse(uint64_t index, uint64_t count) noexcept {
  if (index >= count) return 0;
  uint64_t reversed = 0;
  for (auto bits = std::bit_width(count - 1); bits > 0; --bits, index >>= 1)
    reversed = reversed << 1 | (index & 1);
  return reversed;
}

}  // namespace sluice

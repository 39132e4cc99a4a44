// The library's structs as C++ likes them: all zero, with struct_size set.
#pragma once

#include <cstdint>

namespace program {

template <typename Struct>
[[nodiscard]] Struct sized() {
  Struct value{};
  value.struct_size = static_cast<uint32_t>(sizeof(Struct));
  return value;
}

}  // namespace program

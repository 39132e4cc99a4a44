// Types of tensors: names and sizes.
//
// Every type is stored in blocks: `elements` of them take `bytes`, never less. A plain type of
// whole bytes has blocks of one element; the 4-bit F4 has blocks of two in one byte; the quantised
// types of GGUF share scales among 32 to 256 elements.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

#include "runtime/sluice.h"

namespace sluice {

struct TypeBlock {
  uint32_t elements;  // 0 for UNKNOWN
  uint32_t bytes;
};

const char *type_name(sluice_type type) noexcept;  // "BF16"; "UNKNOWN"
uint32_t type_bits(sluice_type type) noexcept;     // of one element; 0 for UNKNOWN and quantised
TypeBlock type_block(sluice_type type) noexcept;

}  // namespace sluice

// Finds the blocks of a model (weights that are used together, such as one transformer layer) by
// the names of its tensors.
//
// A counting number is a component of a name in plain decimal with a dot behind it: the 7 in
// "model.layers.7.mlp.up.weight". What stands before it ("model.layers.") is its list. A list is
// one of blocks when
//   - two of its numbers are neighbours (0 and 1),
//   - its numbers have two tensors each on average; three when numbers are missing, as in the
//     nn.Sequential "proj.0", "proj.1", "proj.3" whose layer 2 has no weights,
//   - two numbers have a tensor of the same name behind the number: the two text encoders in
//     "conditioner.embedders.0" and ".1" of SDXL are no blocks, the layers inside them are.
// Each tensor belongs to the outermost such list in its name: "layers.3.experts.5.w1" to layers.3.
//
// Threads: a pure function. Invariant: time is n log n in the bytes of all names at worst.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

struct NamedSize {
  std::string_view name;
  uint64_t size_bytes;
};

struct Block {
  std::string prefix;  // "model.layers.7."
  uint32_t number;     // 7
  uint64_t tensor_count;
  uint64_t size_bytes;
};

inline constexpr uint32_t kNoBlock = UINT32_MAX;

struct Blocks {
  std::vector<Block> blocks;       // by list, then by number: 2 before 10
  std::vector<uint32_t> block_of;  // for each tensor; kNoBlock: outside the blocks
};

// Throws only std::bad_alloc.
Blocks find_blocks(std::span<const NamedSize> tensors);

}  // namespace sluice

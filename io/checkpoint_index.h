// The index of a sharded checkpoint (model.safetensors.index.json): which shard has which tensor.
//
// Threads: a pure function.
// Invariant: names and shards are unique; every shard is a plain file name
// with at least one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/status.h"

namespace sluice {

struct CheckpointIndex {
  struct Entry {
    uint64_t name;  // where it starts in names
    uint32_t name_size;
    uint32_t shard;
  };
  std::string names;
  std::vector<Entry> entries;
  std::vector<std::string> shards;  // file names, sorted

  std::string_view name_of(uint64_t entry) const noexcept {
    return {names.data() + entries[entry].name, entries[entry].name_size};
  }
};

// "weight_map" must be an object of strings that are plain file names; all else is ignored.
// Returns: OK; BAD_FORMAT. Throws only std::bad_alloc.
Result<CheckpointIndex> parse_checkpoint_index(std::string_view json);

}  // namespace sluice

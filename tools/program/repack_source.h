// What `sluice repack` reads: a checkpoint, opened and checked by the library, and what the library
// gives for all shards together only, shard by shard.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/program/handles.h"

namespace program {

using Metadata = std::vector<std::pair<std::string, std::string>>;

struct RepackSource {
  Checkpoint checkpoint;
  std::vector<sluice_tensor_info> tensors;  // names and shapes live as long as the checkpoint
  std::vector<std::string> shards;          // their paths
  std::vector<Metadata> metadata;           // "__metadata__" of each shard
  std::string index;                        // path of the index; empty: there is none
  uint64_t data_bytes = 0;
};

// Throws Failure. The runtime must outlive the source.
[[nodiscard]] RepackSource open_repack_source(const Runtime &runtime, const std::string &path);

}  // namespace program

// The layout that `sluice repack` writes. In each file the tensors whose size is a multiple of
// kPageBytes come first, block by block, and the header is padded so that they begin at multiples
// of it too: direct reads can take each of them alone. The others follow, block by block, the
// largest first. A safetensors file has no holes, so these can't be aligned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/program/repack_source.h"

namespace program {

constexpr uint64_t kPageBytes = 4096;

struct RepackTensor {
  size_t index = 0;     // in the source
  uint64_t offset = 0;  // in the new file
};

struct RepackFile {
  std::string name;
  std::string header;  // with its length in front and its padding
  std::vector<RepackTensor> tensors;
  uint64_t bytes = 0;  // of the whole file
};

struct RepackPlan {
  std::vector<RepackFile> files;
  std::string index_name;  // empty: one file, without an index
  std::string index;
  uint64_t bytes = 0;  // of all files
  uint64_t aligned_tensors = 0;
  uint64_t aligned_bytes = 0;
};

// `shard_size_bytes` 0 keeps the files of the source. Throws Failure.
[[nodiscard]] RepackPlan plan_repack(const RepackSource &source, uint64_t shard_size_bytes);

}  // namespace program

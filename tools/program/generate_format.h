// What `sluice generate` writes around the data: headers, names of files and an index, in either
// format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/program/options.h"

namespace program {

struct PlannedTensor {
  std::string name;
  uint64_t elements = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // in the data of its file
};

struct PlannedFile {
  std::string name;  // "model-00001-of-00004.safetensors"
  size_t first_tensor = 0;
  size_t end_tensor = 0;
  uint64_t data_start = 0;  // where its data begin in the data of the whole checkpoint
  uint64_t data_bytes = 0;  // padding included
};

inline constexpr uint64_t kRowElements = 1024;  // of the tensors that get two dimensions

// What the ends of tensors are padded to.
[[nodiscard]] uint64_t data_alignment(sluice_format format);
// "model-00001-of-00004.gguf"; index counts from 0.
[[nodiscard]] std::string shard_name(sluice_format format, uint32_t index, uint32_t count);
// Of tensor `part` of a block, or outside the blocks: 0 in front of them, the others behind.
inline constexpr uint64_t kNoBlock = UINT64_MAX;
[[nodiscard]] std::string tensor_name(sluice_format format, uint64_t block, uint64_t part);

// Throws UsageError where the format hasn't this type.
void check_type(const GenerateRequest &request);

// Everything before the data of file `index`. Throws UsageError when it would be too long.
[[nodiscard]] std::string header_of(const GenerateRequest &request, size_t index,
                                    const std::vector<PlannedFile> &files,
                                    const std::vector<PlannedTensor> &tensors);

inline constexpr const char *kIndexName = "model.safetensors.index.json";
[[nodiscard]] std::string index_of(const std::vector<PlannedFile> &files,
                                   const std::vector<PlannedTensor> &tensors);

}  // namespace program

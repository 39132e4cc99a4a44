// A checkpoint: one safetensors or GGUF file, or a set of them.
//
// What may be opened: a file of either format; any file of a split GGUF set; an index of
// safetensors files (a file named *.json); a directory with one of these (checkpoint_folder.h).
//
// An index is held to its word: each tensor it lists is in the shard that it names. Tensors in a
// shard that the index doesn't list belong to the checkpoint too, as they do for transformers,
// which loads shards whole. A GGUF set has all the files that its names and keys count, each says
// which one it is, and together they have the tensors that they say. The same name in two shards is
// refused.
//
// Threads: immutable once opened.
// Invariant: tensors are in the order of shard (by file name) and offset; names are unique; all
// shards have the same format.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/blocks.h"
#include "io/checkpoint_index.h"
#include "io/fast_disk.h"
#include "io/file.h"
#include "io/file_format.h"
#include "io/file_header.h"
#include "io/name_table.h"
#include "runtime/status.h"

namespace sluice {

struct CheckpointTensor {
  HeaderTensor header;
  uint32_t shard;
  uint64_t file_offset;  // of the first byte, in the shard's file
  uint64_t size_bytes;
  uint32_t block;  // kNoBlock: outside the blocks
};

class Checkpoint {
 public:
  struct Shard {
    std::string path;
    std::unique_ptr<File> file;
    FileHeader header;
    uint64_t data_offset;   // of the first byte of data, in the file
    uint64_t first_tensor;  // index in the checkpoint
  };

  // Reads and checks headers, no weights. Shards stay open.
  // Returns: OK; NOT_FOUND (file, index or shard); BAD_FORMAT; END_OF_FILE; those of File::open and
  // File::read_exactly. Throws only std::bad_alloc.
  static Result<std::unique_ptr<Checkpoint>> open(Runtime &runtime, const std::string &path);

  sluice_format format() const noexcept { return format_; }
  uint64_t tensor_count() const noexcept { return tensor_count_; }
  uint64_t data_bytes() const noexcept { return data_bytes_; }
  CheckpointTensor tensor(uint64_t index) const noexcept;
  std::optional<uint64_t> find(std::string_view name) const;

  const std::vector<Shard> &shards() const noexcept { return shards_; }
  const std::vector<Block> &blocks() const noexcept { return blocks_.blocks; }
  // The metadata of all shards, in their order; an entry that several shards have alike is there
  // once.
  uint64_t metadata_count() const noexcept { return metadata_.size(); }
  std::pair<std::string_view, std::string_view> metadata(uint64_t index) const noexcept;

 private:
  Checkpoint() = default;

  Status open_path(Runtime &runtime, const std::string &path);
  Status open_file(Runtime &runtime, const std::string &path);
  Status open_index(Runtime &runtime, const std::string &path);
  Status open_set(Runtime &runtime, const std::string &path, GgufSplit split);
  void add_shard(std::unique_ptr<File> file, LoadedHeader loaded);
  Status check_index(const CheckpointIndex &index) const;
  Status finish();
  void collect_metadata();
  const Shard &shard_of(uint64_t index) const noexcept;
  std::string_view name_of(uint64_t index) const noexcept;

  std::vector<Shard> shards_;
  sluice_format format_ = SLUICE_FORMAT_UNKNOWN;
  uint64_t tensor_count_ = 0;
  uint64_t data_bytes_ = 0;
  NameTable names_;
  Blocks blocks_;
  std::vector<std::pair<uint32_t, uint64_t>> metadata_;  // shard, entry of its header
};

}  // namespace sluice

struct sluice_checkpoint {
  std::unique_ptr<sluice::Checkpoint> checkpoint;
  std::vector<sluice_file> files;  // of the shards, borrowed from the checkpoint
  sluice::FastDisk fast_disk;
};

// The C API of checkpoints, but for loading one.
#include <algorithm>

#include "io/checkpoint.h"
#include "io/json_events.h"
#include "io/types.h"
#include "runtime/c_api.h"

using namespace sluice;

namespace {

Status need_index(uint64_t index, uint64_t count, const char *what) noexcept {
  if (index < count) return {};
  return error(SLUICE_INVALID_ARGUMENT, "there is no {} {}: the checkpoint has {}", what, index,
               count);
}

}  // namespace

extern "C" {

const char *sluice_type_name(sluice_type type) { return type_name(type); }

uint32_t sluice_type_bits(sluice_type type) { return type_bits(type); }

void sluice_type_block(sluice_type type, uint32_t *out_elements, uint32_t *out_bytes) {
  const TypeBlock block = type_block(type);
  if (out_elements) *out_elements = block.elements;
  if (out_bytes) *out_bytes = block.bytes;
}

sluice_status sluice_checkpoint_open(sluice_runtime *runtime, const char *path,
                                     sluice_checkpoint **out_checkpoint) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_checkpoint, "out_checkpoint"));
    SLUICE_TRY(need(runtime, "runtime"));
    SLUICE_TRY(need(path, "path"));
    auto handle = std::make_unique<sluice_checkpoint>();
    SLUICE_ASSIGN(handle->checkpoint, Checkpoint::open(*runtime->runtime, path));
    handle->files.reserve(handle->checkpoint->shards().size());
    for (const Checkpoint::Shard &shard : handle->checkpoint->shards()) {
      handle->files.push_back({nullptr, shard.file.get()});
    }
    *out_checkpoint = handle.release();
    return {};
  });
}

sluice_status sluice_checkpoint_close(sluice_checkpoint *checkpoint) {
  if (!checkpoint || process_is_exiting() || process_was_forked()) return SLUICE_OK;
  return guarded([&]() -> Status {
    for (const Checkpoint::Shard &shard : checkpoint->checkpoint->shards()) {
      if (shard.file->uses() == 0) continue;
      return error(SLUICE_BUSY, "{}: {} reads use the shard", shard.path, shard.file->uses());
    }
    delete checkpoint;
    return {};
  });
}

sluice_status sluice_checkpoint_info_get(const sluice_checkpoint *checkpoint,
                                         sluice_checkpoint_info *out_info) {
  return fill_struct(checkpoint, "checkpoint", out_info, "out_info",
                     [](const sluice_checkpoint &handle, sluice_checkpoint_info &info) -> Status {
                       const Checkpoint &from = *handle.checkpoint;
                       info.shard_count = static_cast<uint32_t>(from.shards().size());
                       info.tensor_count = from.tensor_count();
                       info.block_count = from.blocks().size();
                       info.data_bytes = from.data_bytes();
                       info.format = static_cast<uint32_t>(from.format());
                       return {};
                     });
}

sluice_status sluice_checkpoint_tensor(const sluice_checkpoint *checkpoint, uint64_t index,
                                       sluice_tensor_info *out_info) {
  return fill_struct(checkpoint, "checkpoint", out_info, "out_info",
                     [index](const sluice_checkpoint &handle, sluice_tensor_info &info) -> Status {
                       const Checkpoint &from = *handle.checkpoint;
                       SLUICE_TRY(need_index(index, from.tensor_count(), "tensor"));
                       const CheckpointTensor tensor = from.tensor(index);
                       info.type = static_cast<uint32_t>(tensor.header.type);
                       info.name = tensor.header.name.data();
                       info.shard = tensor.shard;
                       info.dimension_count = static_cast<uint32_t>(tensor.header.shape.size());
                       info.shape = tensor.header.shape.data();
                       info.file_offset = tensor.file_offset;
                       info.size_bytes = tensor.size_bytes;
                       info.block = tensor.block == kNoBlock ? SLUICE_NO_BLOCK : tensor.block;
                       return {};
                     });
}

sluice_status sluice_checkpoint_find(const sluice_checkpoint *checkpoint, const char *name,
                                     uint64_t *out_index) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_index, "out_index"));
    SLUICE_TRY(need(checkpoint, "checkpoint"));
    SLUICE_TRY(need(name, "name"));
    const std::optional<uint64_t> found = checkpoint->checkpoint->find(name);
    if (!found) return error(SLUICE_NOT_FOUND, "there is no tensor '{}'", printable(name));
    *out_index = *found;
    return {};
  });
}

sluice_status sluice_checkpoint_block(const sluice_checkpoint *checkpoint, uint64_t index,
                                      sluice_block_info *out_info) {
  return fill_struct(checkpoint, "checkpoint", out_info, "out_info",
                     [index](const sluice_checkpoint &handle, sluice_block_info &info) -> Status {
                       const Checkpoint &from = *handle.checkpoint;
                       SLUICE_TRY(need_index(index, from.blocks().size(), "block"));
                       const Block &block = from.blocks()[static_cast<size_t>(index)];
                       info.number = block.number;
                       info.prefix = block.prefix.c_str();
                       info.tensor_count = block.tensor_count;
                       info.size_bytes = block.size_bytes;
                       return {};
                     });
}

sluice_status sluice_checkpoint_shard(const sluice_checkpoint *checkpoint, uint32_t index,
                                      const char **out_path, sluice_file **out_file) {
  return guarded([&]() -> Status {
    if (out_path) *out_path = nullptr;
    if (out_file) *out_file = nullptr;
    SLUICE_TRY(need(checkpoint, "checkpoint"));
    SLUICE_TRY(need_index(index, checkpoint->files.size(), "shard"));
    if (out_path) *out_path = checkpoint->checkpoint->shards()[index].path.c_str();
    // A file has its own lock: reading through it changes nothing of the checkpoint.
    if (out_file) *out_file = const_cast<sluice_file *>(&checkpoint->files[index]);
    return {};
  });
}

bool sluice_checkpoint_metadata(const sluice_checkpoint *checkpoint, uint64_t index,
                                const char **out_key, const char **out_value) {
  if (out_key) *out_key = nullptr;
  if (out_value) *out_value = nullptr;
  if (!checkpoint || index >= checkpoint->checkpoint->metadata_count()) return false;
  const auto [key, value] = checkpoint->checkpoint->metadata(index);
  if (out_key) *out_key = key.data();
  if (out_value) *out_value = value.data();
  return true;
}

}  // extern "C"

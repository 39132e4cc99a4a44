#include "tools/program/repack_source.h"

#include <fmt/format.h>

#include <filesystem>

#include "tools/program/failure.h"
#include "tools/program/output.h"

namespace program {
namespace {

// As the library looks for it: an index file itself, or a folder that holds one.
std::string index_path(const std::string &path) {
  std::error_code ignored;
  const auto inside = std::filesystem::path(path) / "model.safetensors.index.json";
  if (std::filesystem::is_directory(path, ignored)) {
    return std::filesystem::exists(inside, ignored) ? inside.string() : std::string();
  }
  return path.ends_with(".json") ? path : std::string();
}

Metadata metadata_of(const sluice_checkpoint *checkpoint) {
  Metadata metadata;
  const char *key = nullptr;
  const char *value = nullptr;
  for (uint64_t i = 0; sluice_checkpoint_metadata(checkpoint, i, &key, &value); ++i) {
    metadata.emplace_back(key, value);
  }
  return metadata;
}

}  // namespace

RepackSource open_repack_source(const Runtime &runtime, const std::string &path) {
  RepackSource source;
  source.index = index_path(path);
  source.checkpoint = open_checkpoint(runtime, path.c_str());
  auto info = sized<sluice_checkpoint_info>();
  check(sluice_checkpoint_info_get(source.checkpoint.get(), &info));
  // Its block types have no place in a safetensors header.
  if (info.format == SLUICE_FORMAT_GGUF) {
    throw Failure(sluice_status_name(SLUICE_NOT_SUPPORTED),
                  fmt::format("'{}' is a GGUF checkpoint; repack takes and writes safetensors",
                              printable(path)));
  }
  source.data_bytes = info.data_bytes;
  source.tensors.resize(info.tensor_count, sized<sluice_tensor_info>());
  for (uint64_t i = 0; i < info.tensor_count; ++i) {
    check(sluice_checkpoint_tensor(source.checkpoint.get(), i, &source.tensors[i]));
  }
  for (uint32_t i = 0; i < info.shard_count; ++i) {
    const char *shard = nullptr;
    check(sluice_checkpoint_shard(source.checkpoint.get(), i, &shard, nullptr));
    source.shards.emplace_back(shard);
    source.metadata.push_back(metadata_of(open_checkpoint(runtime, shard).get()));
  }
  return source;
}

}  // namespace program

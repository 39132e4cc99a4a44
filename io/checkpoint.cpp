#include "io/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/checkpoint_folder.h"
#include "io/gguf_set.h"
#include "io/json_events.h"
#include "io/safetensors.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".json";
// As much as a header may have: for the same names it is the shorter of the two.
constexpr uint64_t kMaxIndexBytes = kSafetensorsMaxHeaderBytes;

Result<CheckpointIndex> read_index(Runtime &runtime, const std::string &path) {
  SLUICE_ASSIGN(const std::unique_ptr<File> file, File::open(runtime, path));
  if (file->size_bytes() > kMaxIndexBytes) {
    return error(SLUICE_BAD_FORMAT, "{}: the index has {} bytes, more than the {} allowed", path,
                 file->size_bytes(), kMaxIndexBytes);
  }
  const auto size = static_cast<size_t>(file->size_bytes());
  const auto text = std::make_unique_for_overwrite<char[]>(size);
  SLUICE_TRY(file->read_exactly(0, text.get(), size));
  Result<CheckpointIndex> index = parse_checkpoint_index({text.get(), size});
  if (!index.ok()) return index.take_status().with_context(path);
  return index;
}

// Opens a shard that something else has named.
Result<std::unique_ptr<File>> open_shard(Runtime &runtime, const std::string &path,
                                         std::string_view named_by) {
  auto file = File::open(runtime, path);
  if (file.ok() || file.status().code() != SLUICE_NOT_FOUND) return file;
  const std::string name = to_text(to_path(path).filename());
  return error(SLUICE_NOT_FOUND, "shard '{}', which {} names, is missing", name, named_by);
}

// Holds file `number` of a set against what those before it said; learns how many tensors it has.
Status check_split(const File &file, const LoadedHeader &loaded, uint64_t number,
                   GgufSplit &expected) {
  if (!loaded.split) {
    return error(SLUICE_BAD_FORMAT,
                 "{}: it has no split.no and split.count, as the others of its set have",
                 file.path());
  }
  const GgufSplit &found = *loaded.split;
  if (found.number != number || found.count != expected.count) {
    return error(SLUICE_BAD_FORMAT, "{}: split.no is {} and split.count {}, not {} and {}",
                 file.path(), found.number, found.count, number, expected.count);
  }
  if (!expected.tensor_count) expected.tensor_count = found.tensor_count;
  if (found.tensor_count && found.tensor_count != expected.tensor_count) {
    return error(SLUICE_BAD_FORMAT, "{}: split.tensors.count is {}, but {} in another file",
                 file.path(), *found.tensor_count, *expected.tensor_count);
  }
  return {};
}

// What the name of a set's file says, held against its keys.
Result<GgufSetName> set_name(const std::string &path, const GgufSplit &split) {
  const auto name = parse_gguf_set_name(to_text(to_path(path).filename()));
  if (name && name->number == split.number && name->count == split.count) return *name;
  return error(SLUICE_BAD_FORMAT,
               "{}: it is one of {} files, but isn't called '{}', so the others can't be found",
               path, split.count, gguf_set_name("...", split.number, split.count));
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(Runtime &runtime, const std::string &path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  SLUICE_TRY(checkpoint->open_path(runtime, path));
  return checkpoint;
}

Status Checkpoint::open_path(Runtime &runtime, const std::string &path) {
  std::error_code code;
  const fs::file_status facts = fs::status(to_path(path), code);
  if (facts.type() == fs::file_type::not_found) {
    return error(SLUICE_NOT_FOUND, "no such file or directory: '{}'", path);
  }
  if (code) return system_error("stat", code.default_error_condition().value(), path);
  if (!fs::is_directory(facts)) return open_file(runtime, path);
  SLUICE_ASSIGN(const std::string found, find_checkpoint(path));
  return open_file(runtime, found);
}

Status Checkpoint::open_file(Runtime &runtime, const std::string &path) {
  if (path.ends_with(kIndexEnding)) return open_index(runtime, path);
  SLUICE_ASSIGN(std::unique_ptr<File> file, File::open(runtime, path));
  SLUICE_ASSIGN(LoadedHeader loaded, load_header(*file));
  if (loaded.split && loaded.split->count > 1) return open_set(runtime, path, *loaded.split);
  if (const auto name = parse_gguf_set_name(to_text(to_path(path).filename()));
      loaded.format == SLUICE_FORMAT_GGUF && name && name->count > 1) {
    return error(SLUICE_BAD_FORMAT,
                 "{}: it is called one of {} files, but lacks the keys split.no and split.count",
                 path, name->count);
  }
  add_shard(std::move(file), std::move(loaded));
  return finish().with_context(path);
}

Status Checkpoint::open_index(Runtime &runtime, const std::string &path) {
  SLUICE_ASSIGN(const CheckpointIndex index, read_index(runtime, path));
  const std::string directory = to_text(to_path(path).parent_path());
  const std::string named_by = fmt::format("index '{}'", path);
  for (const std::string &shard : index.shards) {
    SLUICE_ASSIGN(auto file, open_shard(runtime, join_path(directory, shard), named_by));
    SLUICE_ASSIGN(LoadedHeader loaded, load_safetensors_header(*file));
    add_shard(std::move(file), std::move(loaded));
  }
  SLUICE_TRY(finish().with_context(path));
  return check_index(index).with_context(path);
}

Status Checkpoint::open_set(Runtime &runtime, const std::string &path, GgufSplit split) {
  SLUICE_ASSIGN(const GgufSetName name, set_name(path, split));
  const std::string directory = to_text(to_path(path).parent_path());
  const std::string named_by = fmt::format("the set of '{}'", path);
  for (uint64_t i = 0; i < split.count; ++i) {
    const std::string shard = join_path(directory, gguf_set_name(name.stem, i, split.count));
    SLUICE_ASSIGN(auto file, open_shard(runtime, shard, named_by));
    SLUICE_ASSIGN(LoadedHeader loaded, load_header(*file));
    SLUICE_TRY(check_split(*file, loaded, i, split));
    add_shard(std::move(file), std::move(loaded));
  }
  if (split.tensor_count && split.tensor_count != tensor_count_) {
    return error(SLUICE_BAD_FORMAT, "{}: the set has {} tensors, but split.tensors.count is {}",
                 path, tensor_count_, *split.tensor_count);
  }
  return finish().with_context(path);
}

void Checkpoint::add_shard(std::unique_ptr<File> file, LoadedHeader loaded) {
  format_ = loaded.format;
  const uint64_t first_tensor = tensor_count_;
  tensor_count_ += loaded.header.tensor_count();
  data_bytes_ += loaded.header.data_bytes();
  std::string path = file->path();
  shards_.push_back({std::move(path), std::move(file), std::move(loaded.header), loaded.data_offset,
                     first_tensor});
}

Status Checkpoint::check_index(const CheckpointIndex &index) const {
  for (uint64_t i = 0; i < index.entries.size(); ++i) {
    const std::string_view name = index.name_of(i);
    const std::string &listed = index.shards[index.entries[i].shard];
    const std::optional<uint64_t> found = find(name);
    if (!found) {
      return error(SLUICE_BAD_FORMAT, "tensor '{}' is listed in shard '{}', which lacks it",
                   printable(name), listed);
    }
    const uint32_t shard = tensor(*found).shard;
    if (shard != index.entries[i].shard) {
      return error(SLUICE_BAD_FORMAT, "tensor '{}' is listed in shard '{}', but is in '{}'",
                   printable(name), listed, index.shards[shard]);
    }
  }
  return {};
}

Status Checkpoint::finish() {
  const auto name = [&](uint64_t i) { return name_of(i); };
  names_.build(tensor_count_, name);
  if (const auto twice = names_.duplicate(name)) {
    return error(SLUICE_BAD_FORMAT, "tensor '{}' is in two shards, '{}' and '{}'",
                 printable(name_of(twice->first)), shard_of(twice->first).path,
                 shard_of(twice->second).path);
  }
  std::vector<NamedSize> tensors;
  tensors.reserve(static_cast<size_t>(tensor_count_));
  for (const Shard &shard : shards_) {
    for (uint64_t i = 0; i < shard.header.tensor_count(); ++i) {
      const HeaderTensor tensor = shard.header.tensor(i);
      tensors.push_back({tensor.name, tensor.end - tensor.begin});
    }
  }
  blocks_ = find_blocks(tensors);
  collect_metadata();
  return {};
}

void Checkpoint::collect_metadata() {
  const auto text = [&](const std::pair<uint32_t, uint64_t> &entry) {
    return shards_[entry.first].header.metadata(entry.second);
  };
  for (uint32_t shard = 0; shard < shards_.size(); ++shard) {
    for (uint64_t i = 0; i < shards_[shard].header.metadata_count(); ++i) {
      metadata_.emplace_back(shard, i);
    }
  }
  std::sort(metadata_.begin(), metadata_.end(), [&](const auto &a, const auto &b) {
    return std::pair(text(a), a) < std::pair(text(b), b);
  });
  const auto alike = [&](const auto &a, const auto &b) { return text(a) == text(b); };
  metadata_.erase(std::unique(metadata_.begin(), metadata_.end(), alike), metadata_.end());
  std::sort(metadata_.begin(), metadata_.end());
}

const Checkpoint::Shard &Checkpoint::shard_of(uint64_t index) const noexcept {
  // The last shard that starts at or before it; shards without tensors share a start.
  const auto after = std::upper_bound(
      shards_.begin(), shards_.end(), index,
      [](uint64_t value, const Shard &shard) { return value < shard.first_tensor; });
  return *std::prev(after);
}

std::string_view Checkpoint::name_of(uint64_t index) const noexcept {
  const Shard &shard = shard_of(index);
  return shard.header.name(index - shard.first_tensor);
}

CheckpointTensor Checkpoint::tensor(uint64_t index) const noexcept {
  const Shard &shard = shard_of(index);
  const HeaderTensor header = shard.header.tensor(index - shard.first_tensor);
  return {header, static_cast<uint32_t>(&shard - shards_.data()), shard.data_offset + header.begin,
          header.end - header.begin, blocks_.block_of[index]};
}

std::optional<uint64_t> Checkpoint::find(std::string_view name) const {
  return names_.find(name, [&](uint64_t i) { return name_of(i); });
}

std::pair<std::string_view, std::string_view> Checkpoint::metadata(uint64_t index) const noexcept {
  return shards_[metadata_[index].first].header.metadata(metadata_[index].second);
}

}  // namespace sluice

#include "io/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "io/json_events.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kShardEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".json";
// As much as a header may have: for the same names it is the shorter of the two.
constexpr uint64_t kMaxIndexBytes = kSafetensorsMaxHeaderBytes;

// Paths are UTF-8 in the C API, on Windows too.
fs::path to_path(const std::string &text) {
  return fs::path(std::u8string(text.begin(), text.end()));
}
std::string to_text(const fs::path &path) {
  const std::u8string text = path.u8string();
  return std::string(text.begin(), text.end());
}

struct Text {
  std::unique_ptr<char[]> bytes;
  size_t size = 0;
  std::string_view view() const { return {bytes.get(), size}; }
};

Result<Text> read_text(const File &file, uint64_t offset, uint64_t bytes) {
  Text text;
  text.size = static_cast<size_t>(bytes);
  text.bytes = std::make_unique_for_overwrite<char[]>(text.size);
  SLUICE_TRY(file.read_exactly(offset, text.bytes.get(), bytes));
  return text;
}

struct ReadHeader {
  FileHeader header;
  uint64_t data_offset;
};

Result<ReadHeader> read_header(const File &file) {
  unsigned char prefix[kSafetensorsPrefixBytes] = {};
  const uint64_t file_bytes = file.size_bytes();
  const uint64_t prefix_bytes = std::min<uint64_t>(file_bytes, sizeof prefix);
  SLUICE_TRY(file.read_exactly(0, prefix, prefix_bytes));
  auto bytes = safetensors_header_bytes({prefix, static_cast<size_t>(prefix_bytes)}, file_bytes);
  if (!bytes.ok()) return bytes.take_status().with_context(file.path());
  SLUICE_ASSIGN(const Text text, read_text(file, kSafetensorsPrefixBytes, bytes.value()));
  const uint64_t data_offset = kSafetensorsPrefixBytes + bytes.value();
  auto header = parse_safetensors_header(text.view(), file_bytes - data_offset);
  if (!header.ok()) return header.take_status().with_context(file.path());
  return ReadHeader{header.take(), data_offset};
}

Result<CheckpointIndex> read_index(Runtime &runtime, const std::string &path) {
  SLUICE_ASSIGN(const std::unique_ptr<File> file, File::open(runtime, path));
  if (file->size_bytes() > kMaxIndexBytes) {
    return error(SLUICE_BAD_FORMAT, "{}: the index has {} bytes, more than the {} allowed", path,
                 file->size_bytes(), kMaxIndexBytes);
  }
  SLUICE_ASSIGN(const Text text, read_text(*file, 0, file->size_bytes()));
  Result<CheckpointIndex> index = parse_checkpoint_index(text.view());
  if (!index.ok()) return index.take_status().with_context(path);
  return index;
}

// What a directory has to offer, without hidden files (macOS leaves "._model.safetensors" behind).
struct Listing {
  std::vector<std::string> shards;
  std::vector<std::string> indexes;
};

Result<Listing> list_directory(const std::string &path) {
  Listing out;
  std::error_code code;
  for (fs::directory_iterator at(to_path(path), code), end; !code && at != end;
       at.increment(code)) {
    const std::string name = to_text(at->path().filename());
    std::error_code ignored;
    if (name.starts_with('.') || !at->is_regular_file(ignored)) continue;
    if (name.ends_with(kShardEnding)) out.shards.push_back(name);
    if (name.ends_with(".safetensors.index.json")) out.indexes.push_back(name);
  }
  if (code) return system_error("readdir", code.value(), path);
  std::sort(out.shards.begin(), out.shards.end());
  std::sort(out.indexes.begin(), out.indexes.end());
  return out;
}

std::string join(const std::string &directory, std::string_view name) {
  return to_text(to_path(directory) / to_path(std::string(name)));
}

Status nothing_to_open(const std::string &path, const Listing &listing) {
  const std::string hint = listing.indexes.empty()
                               ? std::string()
                               : fmt::format("; '{}' is there: open that", listing.indexes.front());
  return error(SLUICE_NOT_FOUND,
               "directory '{}' has neither '{}' nor a single *{} file (it has {} of them){}", path,
               kIndexName, kShardEnding, listing.shards.size(), hint);
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(Runtime &runtime, const std::string &path) {
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint);
  SLUICE_TRY(checkpoint->open_any(runtime, path));
  return checkpoint;
}

Status Checkpoint::open_any(Runtime &runtime, const std::string &path) {
  std::error_code code;
  const fs::file_status facts = fs::status(to_path(path), code);
  if (facts.type() == fs::file_type::not_found) {
    return error(SLUICE_NOT_FOUND, "no such file or directory: '{}'", path);
  }
  if (code) return system_error("stat", code.value(), path);
  if (fs::is_directory(facts)) return open_directory(runtime, path);
  return path.ends_with(kIndexEnding) ? open_index(runtime, path) : open_single(runtime, path);
}

Status Checkpoint::open_single(Runtime &runtime, const std::string &path) {
  SLUICE_TRY(add_shard(runtime, path));
  return finish().with_context(path);
}

Status Checkpoint::open_directory(Runtime &runtime, const std::string &path) {
  const std::string index = join(path, kIndexName);
  std::error_code code;
  if (fs::exists(to_path(index), code)) return open_index(runtime, index);
  if (code) return system_error("stat", code.value(), index);
  SLUICE_ASSIGN(const Listing listing, list_directory(path));
  if (listing.shards.size() != 1) return nothing_to_open(path, listing);
  return open_single(runtime, join(path, listing.shards.front()));
}

Status Checkpoint::open_index(Runtime &runtime, const std::string &path) {
  SLUICE_ASSIGN(const CheckpointIndex index, read_index(runtime, path));
  const std::string directory = to_text(to_path(path).parent_path());
  for (const std::string &shard : index.shards) {
    Status status = add_shard(runtime, join(directory, shard));
    if (status.code() == SLUICE_NOT_FOUND) {
      return error(SLUICE_NOT_FOUND, "shard '{}', which index '{}' names, is missing", shard, path);
    }
    SLUICE_TRY(std::move(status));
  }
  SLUICE_TRY(finish().with_context(path));
  return check_index(index).with_context(path);
}

Status Checkpoint::add_shard(Runtime &runtime, const std::string &path) {
  SLUICE_ASSIGN(std::unique_ptr<File> file, File::open(runtime, path));
  SLUICE_ASSIGN(ReadHeader read, read_header(*file));
  Shard shard = {path, std::move(file), std::move(read.header), read.data_offset, tensor_count_};
  tensor_count_ += shard.header.tensor_count();
  data_bytes_ += shard.header.data_bytes();
  shards_.push_back(std::move(shard));
  return {};
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

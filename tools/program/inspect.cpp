// sluice inspect: what a checkpoint holds. Reads headers only and needs no driver.
#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/handles.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr size_t kMostRanges = 12;
constexpr size_t kMetadataWidth = 70;

struct TypeSum {
  std::string name;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
};

// Blocks of one kind: the same name up to the number, as many tensors, as many bytes.
struct BlockGroup {
  std::string stem;  // "model.layers."
  uint64_t tensors = 0;
  uint64_t bytes = 0;  // of one block
  std::vector<uint64_t> numbers;
};

struct Contents {
  sluice_checkpoint_info info = sized<sluice_checkpoint_info>();
  std::vector<std::string> shards;
  std::vector<sluice_tensor_info> tensors;
  std::vector<TypeSum> types;  // the largest first
  std::vector<BlockGroup> groups;
  TypeSum outside;  // tensors outside the blocks
  std::vector<std::pair<const char *, const char *>> metadata;
};

std::string block_stem(std::string_view prefix) {
  if (prefix.ends_with('.')) prefix.remove_suffix(1);
  while (!prefix.empty() && std::isdigit(static_cast<unsigned char>(prefix.back())) != 0) {
    prefix.remove_suffix(1);
  }
  return std::string(prefix);
}

void collect_blocks(const sluice_checkpoint *checkpoint, Contents *contents) {
  std::map<std::tuple<std::string, uint64_t, uint64_t>, size_t> known;
  for (uint64_t i = 0; i < contents->info.block_count; ++i) {
    auto block = sized<sluice_block_info>();
    check(sluice_checkpoint_block(checkpoint, i, &block));
    std::string stem = block_stem(block.prefix);
    const auto [place, added] =
        known.try_emplace({stem, block.tensor_count, block.size_bytes}, contents->groups.size());
    if (added) {
      contents->groups.push_back({std::move(stem), block.tensor_count, block.size_bytes, {}});
    }
    contents->groups[place->second].numbers.push_back(block.number);
  }
  for (BlockGroup &group : contents->groups) std::sort(group.numbers.begin(), group.numbers.end());
}

void collect_tensors(const sluice_checkpoint *checkpoint, Contents *contents) {
  std::map<uint32_t, TypeSum> sums;
  contents->tensors.reserve(contents->info.tensor_count);
  for (uint64_t i = 0; i < contents->info.tensor_count; ++i) {
    auto tensor = sized<sluice_tensor_info>();
    check(sluice_checkpoint_tensor(checkpoint, i, &tensor));
    contents->tensors.push_back(tensor);
    TypeSum &sum = sums[tensor.type];
    ++sum.tensors;
    sum.bytes += tensor.size_bytes;
    if (tensor.block != SLUICE_NO_BLOCK) continue;
    ++contents->outside.tensors;
    contents->outside.bytes += tensor.size_bytes;
  }
  for (auto &[type, sum] : sums) {
    sum.name = sluice_type_name(static_cast<sluice_type>(type));
    contents->types.push_back(sum);
  }
  std::stable_sort(contents->types.begin(), contents->types.end(),
                   [](const TypeSum &a, const TypeSum &b) { return a.bytes > b.bytes; });
}

Contents collect(const sluice_checkpoint *checkpoint) {
  Contents contents;
  check(sluice_checkpoint_info_get(checkpoint, &contents.info));
  for (uint32_t i = 0; i < contents.info.shard_count; ++i) {
    const char *path = nullptr;
    check(sluice_checkpoint_shard(checkpoint, i, &path, nullptr));
    contents.shards.emplace_back(path);
  }
  collect_tensors(checkpoint, &contents);
  collect_blocks(checkpoint, &contents);
  const char *key = nullptr;
  const char *value = nullptr;
  for (uint64_t i = 0; sluice_checkpoint_metadata(checkpoint, i, &key, &value); ++i) {
    contents.metadata.emplace_back(key, value);
  }
  return contents;
}

// {0, 1, 2, 5} is "0-2,5".
std::string number_ranges(const std::vector<uint64_t> &numbers) {
  std::string text;
  size_t ranges = 0;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (++ranges > kMostRanges) return text + ",...";
    if (!text.empty()) text += ',';
    text += std::to_string(numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

std::string shape_text(const sluice_tensor_info &tensor) {
  const uint64_t *end = tensor.shape + tensor.dimension_count;
  return fmt::format("[{}]", fmt::join(tensor.shape, end, ", "));
}

Json tensor_json(const sluice_tensor_info &tensor) {
  return {{"name", tensor.name},
          {"type", sluice_type_name(static_cast<sluice_type>(tensor.type))},
          {"shape", std::vector<uint64_t>(tensor.shape, tensor.shape + tensor.dimension_count)},
          {"bytes", tensor.size_bytes},
          {"shard", tensor.shard},
          {"file_offset", tensor.file_offset},
          {"block", json_or_null(tensor.block)}};
}

Json contents_json(const Request &request, const Contents &contents) {
  Json types = Json::object();
  for (const TypeSum &type : contents.types) {
    types[type.name] = {{"tensors", type.tensors}, {"bytes", type.bytes}};
  }
  Json groups = Json::array();
  for (const BlockGroup &group : contents.groups) {
    groups.push_back({{"prefix", group.stem},
                      {"numbers", group.numbers},
                      {"blocks", group.numbers.size()},
                      {"tensors_per_block", group.tensors},
                      {"bytes_per_block", group.bytes}});
  }
  Json metadata = Json::object();
  for (const auto &[key, value] : contents.metadata) metadata[key] = value;
  Json result = {{"path", request.paths.front()},
                 {"format", format_name(contents.info.format)},
                 {"shards", contents.shards},
                 {"tensors", contents.info.tensor_count},
                 {"bytes", contents.info.data_bytes},
                 {"blocks", contents.info.block_count},
                 {"types", std::move(types)},
                 {"block_groups", std::move(groups)},
                 {"outside_blocks",
                  {{"tensors", contents.outside.tensors}, {"bytes", contents.outside.bytes}}},
                 {"metadata", std::move(metadata)}};
  if (!request.tensors) return result;
  Json list = Json::array();
  for (const sluice_tensor_info &tensor : contents.tensors) list.push_back(tensor_json(tensor));
  result["tensor_list"] = std::move(list);
  return result;
}

std::string summary_text(const Request &request, const Contents &contents) {
  std::string text =
      fmt::format("{}: {} in {}, {}\n\n", printable(request.paths.front()),
                  counted(contents.info.tensor_count, "tensor"),
                  counted(contents.info.shard_count, "file"), human_size(contents.info.data_bytes));
  text += row("format", format_name(contents.info.format));
  const char *label = "types";
  for (const TypeSum &type : contents.types) {
    text += fmt::format("{:<11}{:<8} {:>8} {:<8} {:>10}\n", label, type.name, type.tensors,
                        type.tensors == 1 ? "tensor" : "tensors", human_size(type.bytes));
    label = "";
  }
  label = "blocks";
  for (const BlockGroup &group : contents.groups) {
    const bool several = group.numbers.size() > 1;
    text += fmt::format("{:<11}{}{}: {} x {}, {}{}\n", label, printable(group.stem),
                        number_ranges(group.numbers), counted(group.numbers.size(), "block"),
                        counted(group.tensors, "tensor"), human_size(group.bytes),
                        several ? " each" : "");
    label = "";
  }
  if (!contents.groups.empty() && contents.outside.tensors != 0) {
    text +=
        fmt::format("{:<11}outside them: {}, {}\n", "", counted(contents.outside.tensors, "tensor"),
                    human_size(contents.outside.bytes));
  }
  return text;
}

std::string metadata_text(const Contents &contents) {
  std::string text;
  const char *label = "metadata";
  for (const auto &[key, value] : contents.metadata) {
    std::string shown = printable(value);
    if (shown.size() > kMetadataWidth) {
      shown = fmt::format("{}... ({} bytes)", shown.substr(0, kMetadataWidth),
                          std::string_view(value).size());
    }
    text += fmt::format("{:<11}{} = {}\n", label, printable(key), shown);
    label = "";
  }
  return text;
}

std::string tensors_text(const Contents &contents) {
  std::string text = "\n";
  size_t widest = 0;
  for (const sluice_tensor_info &tensor : contents.tensors) {
    widest = std::max(widest, std::string_view(tensor.name).size());
  }
  widest = std::min(widest, size_t{60});
  for (const sluice_tensor_info &tensor : contents.tensors) {
    text += fmt::format("{:<{}}  {:<7} {:<20} {:>12} bytes at {}", printable(tensor.name), widest,
                        sluice_type_name(static_cast<sluice_type>(tensor.type)), shape_text(tensor),
                        tensor.size_bytes, tensor.file_offset);
    if (contents.info.shard_count > 1) {
      text += fmt::format(" of file {}", tensor.shard + 1);
    }
    text += '\n';
  }
  return text;
}

}  // namespace

int run_inspect(const Request &request) {
  sluice_options options = request.library;
  if (options.driver == nullptr) options.driver = "none";
  const Runtime runtime = create_runtime(options);
  const Checkpoint checkpoint = open_checkpoint(runtime, request.paths.front().c_str());
  const Contents contents = collect(checkpoint.get());
  if (request.json) {
    write_json(contents_json(request, contents));
    return kExitDone;
  }
  std::string text = summary_text(request, contents) + metadata_text(contents);
  if (request.tensors) text += tensors_text(contents);
  write_stdout(text);
  return kExitDone;
}

}  // namespace program

#include "tools/program/repack_plan.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/failure.h"
#include "tools/program/output.h"

namespace program {
namespace {

static_assert(std::endian::native == std::endian::little, "a safetensors header starts so");

constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's bound; the library's for indexes
constexpr const char *kDefaultIndexName = "model.safetensors.index.json";
constexpr const char *kMapKey = "weight_map";

using Tensors = std::vector<sluice_tensor_info>;

struct Shard {
  std::string name;
  const Metadata *metadata = nullptr;
  std::vector<size_t> tensors;
};

bool whole_pages(const sluice_tensor_info &tensor) {
  return tensor.size_bytes != 0 && tensor.size_bytes % kPageBytes == 0;
}

// What lies outside the blocks comes before them.
uint64_t group_of(const sluice_tensor_info &tensor) {
  return tensor.block == SLUICE_NO_BLOCK ? 0 : tensor.block + 1;
}

// ---- Which tensors a file gets -------------------------------------------------------------

std::vector<Shard> shards_as_they_are(const RepackSource &source) {
  std::vector<Shard> shards(source.shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = std::filesystem::path(source.shards[i]).filename().string();
    shards[i].metadata = &source.metadata[i];
  }
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    shards[source.tensors[i].shard].tensors.push_back(i);
  }
  return shards;
}

// All tensors, those of a group in the source's order.
std::vector<size_t> by_group(const Tensors &tensors) {
  std::vector<size_t> order(tensors.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return group_of(tensors[a]) < group_of(tensors[b]); });
  return order;
}

// Fills files up to the limit. A block that fits into a file of its own isn't split.
class Filler {
 public:
  Filler(const Tensors &tensors, uint64_t limit_bytes)
      : tensors_(tensors), limit_bytes_(limit_bytes) {}

  std::vector<Shard> fill() {
    shards_.emplace_back();
    const std::vector<size_t> order = by_group(tensors_);
    for (size_t at = 0; at < order.size();) {
      const uint64_t group = group_of(tensors_[order[at]]);
      size_t end = at;
      uint64_t bytes = 0;
      for (; end < order.size() && group_of(tensors_[order[end]]) == group; ++end) {
        bytes += tensors_[order[end]].size_bytes;
      }
      if (bytes <= limit_bytes_) make_room(bytes);
      for (; at < end; ++at) add(order[at]);
    }
    return std::move(shards_);
  }

 private:
  void make_room(uint64_t bytes) {
    if (used_ == 0 || (used_ <= limit_bytes_ && bytes <= limit_bytes_ - used_)) return;
    shards_.emplace_back();
    used_ = 0;
  }

  void add(size_t index) {
    make_room(tensors_[index].size_bytes);
    shards_.back().tensors.push_back(index);
    used_ += tensors_[index].size_bytes;
  }

  const Tensors &tensors_;
  const uint64_t limit_bytes_;
  std::vector<Shard> shards_;
  uint64_t used_ = 0;
};

// Every new file gets the metadata of all old ones, which must agree for that.
Metadata common_metadata(const RepackSource &source) {
  Metadata all;
  std::map<std::string, std::string> known;
  for (const Metadata &metadata : source.metadata) {
    for (const auto &[key, value] : metadata) {
      const auto [place, added] = known.emplace(key, value);
      if (added) all.emplace_back(key, value);
      if (place->second == value) continue;
      throw Failure(sluice_status_name(SLUICE_NOT_SUPPORTED),
                    fmt::format("the files disagree in metadata '{}': they can't be divided anew; "
                                "leave --shard-size away",
                                printable(key)));
    }
  }
  return all;
}

std::vector<Shard> divided(const RepackSource &source, uint64_t limit_bytes,
                           const Metadata *metadata) {
  std::vector<Shard> shards = Filler(source.tensors, limit_bytes).fill();
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    shards[i].metadata = metadata;
  }
  return shards;
}

// ---- Header and index ----------------------------------------------------------------------

std::string quoted(const std::string &text) { return Json(text).dump(); }

void append_metadata(const Metadata &metadata, std::string *json) {
  if (metadata.empty()) return;
  *json += R"("__metadata__":{)";
  const char *separator = "";
  for (const auto &[key, value] : metadata) {
    *json += separator + quoted(key) + ':' + quoted(value);
    separator = ",";
  }
  *json += '}';
}

void append_tensor(const sluice_tensor_info &tensor, uint64_t begin, std::string *json) {
  if (json->size() > 1) *json += ',';
  *json += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                       quoted(tensor.name), sluice_type_name(static_cast<sluice_type>(tensor.type)),
                       fmt::join(std::span(tensor.shape, tensor.dimension_count), ","), begin,
                       begin + tensor.size_bytes);
}

void check_length(const std::string &name, const std::string &json) {
  if (json.size() <= kMostHeaderBytes) return;
  throw Failure(sluice_status_name(SLUICE_NOT_SUPPORTED),
                fmt::format("'{}' would describe its tensors in {} bytes, and {} are allowed",
                            printable(name), json.size(), kMostHeaderBytes));
}

// The length counts the padding: data begin where the padding ends.
std::string header_of(const std::string &name, std::string json) {
  uint64_t length = json.size();
  const uint64_t end = sizeof length + length;
  json.append((kPageBytes - end % kPageBytes) % kPageBytes, ' ');
  check_length(name, json);
  length = json.size();
  std::string prefix(sizeof length, '\0');
  std::memcpy(prefix.data(), &length, sizeof length);
  return prefix + json;
}

// What the source's index says beside the map; of a source without one the total size.
Json index_top(const RepackSource &source) {
  if (source.index.empty()) return {{"metadata", {{"total_size", source.data_bytes}}}};
  std::ifstream file(source.index, std::ios::binary);
  const auto without_map = [](int depth, Json::parse_event_t event, Json &parsed) {
    return depth != 1 || event != Json::parse_event_t::key || parsed != Json(kMapKey);
  };
  Json top = Json::parse(file, without_map, false);
  if (top.is_object()) return top;
  throw Failure(sluice_status_name(SLUICE_BAD_FORMAT),
                fmt::format("the index '{}' changed while it was read", source.index));
}

std::string index_of(const RepackSource &source, const std::vector<RepackFile> &files) {
  const Json top = index_top(source);
  std::string json = "{";
  for (const auto &[key, value] : top.items()) {
    json += fmt::format("{}:{},", quoted(key), value.dump());
  }
  json += fmt::format("\"{}\":{{", kMapKey);
  const char *separator = "\n";
  for (const RepackFile &file : files) {
    const std::string name = quoted(file.name);
    for (const RepackTensor &tensor : file.tensors) {
      json += fmt::format("{}{}:{}", separator, quoted(source.tensors[tensor.index].name), name);
      separator = ",\n";
    }
  }
  return json + "}}\n";
}

// ---- Layout --------------------------------------------------------------------------------

void sort_for_layout(const Tensors &tensors, std::vector<size_t> *order) {
  const auto rank = [&](size_t index) {
    const sluice_tensor_info &tensor = tensors[index];
    const bool pages = whole_pages(tensor);
    return std::tuple(!pages, group_of(tensor), pages ? 0 : UINT64_MAX - tensor.size_bytes);
  };
  std::stable_sort(order->begin(), order->end(),
                   [&](size_t a, size_t b) { return rank(a) < rank(b); });
}

RepackFile lay_out(const Tensors &tensors, Shard shard, RepackPlan *plan) {
  sort_for_layout(tensors, &shard.tensors);
  RepackFile file;
  file.name = shard.name;
  std::string json = "{";
  append_metadata(*shard.metadata, &json);
  uint64_t data_bytes = 0;
  for (const size_t index : shard.tensors) {
    append_tensor(tensors[index], data_bytes, &json);
    file.tensors.push_back({index, data_bytes});
    data_bytes += tensors[index].size_bytes;
    if (!whole_pages(tensors[index])) continue;
    ++plan->aligned_tensors;
    plan->aligned_bytes += tensors[index].size_bytes;
  }
  file.header = header_of(file.name, json + '}');
  for (RepackTensor &tensor : file.tensors) tensor.offset += file.header.size();
  file.bytes = file.header.size() + data_bytes;
  return file;
}

}  // namespace

RepackPlan plan_repack(const RepackSource &source, uint64_t shard_size_bytes) {
  RepackPlan plan;
  Metadata metadata;
  const bool divide = shard_size_bytes != 0;
  if (divide) metadata = common_metadata(source);
  for (Shard &shard :
       divide ? divided(source, shard_size_bytes, &metadata) : shards_as_they_are(source)) {
    plan.files.push_back(lay_out(source.tensors, std::move(shard), &plan));
    plan.bytes += plan.files.back().bytes;
  }
  if (!divide && source.index.empty()) return plan;
  plan.index_name = source.index.empty() ? kDefaultIndexName
                                         : std::filesystem::path(source.index).filename().string();
  plan.index = index_of(source, plan.files);
  check_length(plan.index_name, plan.index);
  plan.bytes += plan.index.size();
  return plan;
}

}  // namespace program

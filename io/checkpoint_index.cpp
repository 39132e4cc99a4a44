#include "io/checkpoint_index.h"

#include <map>
#include <utility>

#include "io/json_events.h"
#include "io/name_table.h"

namespace sluice {
namespace {

constexpr std::string_view kMapKey = "weight_map";

// Backslash and colon lead elsewhere on Windows, and a checkpoint must mean the same everywhere.
bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == name.npos;
}

class IndexParser final : public JsonEvents {
 public:
  Status begin(JsonKind kind) override;
  Status end(JsonKind kind) override;
  Status key(std::string_view text) override;
  Status text(std::string_view text) override;
  Status whole(uint64_t) override { return other(JsonKind::kWhole); }
  Status other(JsonKind kind) override;

  Result<CheckpointIndex> finish();

 private:
  enum class State { kStart, kTop, kMapValue, kMap, kShard, kIgnored, kDone };

  Status unexpected(JsonKind kind) const;
  std::string last_name() const { return printable(index_.name_of(index_.entries.size() - 1)); }

  CheckpointIndex index_;
  std::map<std::string, uint32_t, std::less<>> shards_;
  State state_ = State::kStart;
  size_t ignored_depth_ = 0;
  bool saw_map_ = false;
};

Status IndexParser::begin(JsonKind kind) {
  const bool object = kind == JsonKind::kObject;
  if (state_ == State::kIgnored) {
    ++ignored_depth_;
    return {};
  }
  if (object && state_ == State::kStart) {
    state_ = State::kTop;
    return {};
  }
  if (object && state_ == State::kMapValue) {
    state_ = State::kMap;
    return {};
  }
  return unexpected(kind);
}

Status IndexParser::end(JsonKind) {
  if (state_ == State::kIgnored) {
    if (--ignored_depth_ == 0) state_ = State::kTop;
  } else {
    state_ = state_ == State::kMap ? State::kTop : State::kDone;
  }
  return {};
}

Status IndexParser::key(std::string_view text) {
  if (state_ == State::kTop && text == kMapKey) {
    if (saw_map_) return error(SLUICE_BAD_FORMAT, "weight_map is there twice");
    saw_map_ = true;
    state_ = State::kMapValue;
  } else if (state_ == State::kTop) {
    state_ = State::kIgnored;
  } else if (state_ == State::kMap) {
    index_.entries.push_back({index_.names.size(), static_cast<uint32_t>(text.size()), 0});
    index_.names.append(text);
    state_ = State::kShard;
  }
  return {};
}

Status IndexParser::text(std::string_view text) {
  if (state_ != State::kShard) return other(JsonKind::kText);
  if (!is_plain_file_name(text)) {
    return error(SLUICE_BAD_FORMAT,
                 "weight_map: the shard of '{}' is '{}', not the name of a file beside the index "
                 "(byte {})",
                 last_name(), printable(text), position());
  }
  auto at = shards_.find(text);
  if (at == shards_.end()) {
    at = shards_.emplace(std::string(text), static_cast<uint32_t>(shards_.size())).first;
  }
  index_.entries.back().shard = at->second;
  state_ = State::kMap;
  return {};
}

Status IndexParser::other(JsonKind kind) {
  if (state_ != State::kIgnored) return unexpected(kind);
  if (ignored_depth_ == 0) state_ = State::kTop;
  return {};
}

Status IndexParser::unexpected(JsonKind kind) const {
  const char *found = json_kind_text(kind);
  if (state_ == State::kMapValue) {
    return error(SLUICE_BAD_FORMAT, "weight_map is {}, not an object (byte {})", found, position());
  }
  if (state_ == State::kShard) {
    return error(SLUICE_BAD_FORMAT, "weight_map: the shard of '{}' is {}, not a string (byte {})",
                 last_name(), found, position());
  }
  return error(SLUICE_BAD_FORMAT, "it is {}, not an object", found);
}

Result<CheckpointIndex> IndexParser::finish() {
  if (!saw_map_) return error(SLUICE_BAD_FORMAT, "it has no weight_map");
  if (index_.entries.empty()) return error(SLUICE_BAD_FORMAT, "its weight_map lists no tensor");
  const auto name = [&](uint64_t i) { return index_.name_of(i); };
  NameTable names;
  names.build(index_.entries.size(), name);
  if (const auto twice = names.duplicate(name)) {
    return error(SLUICE_BAD_FORMAT, "weight_map lists '{}' twice", printable(name(twice->second)));
  }
  // From the order of first mention to the order of names.
  std::vector<uint32_t> rank(shards_.size());
  for (const auto &[shard, mentioned] : shards_) {
    rank[mentioned] = static_cast<uint32_t>(index_.shards.size());
    index_.shards.push_back(shard);
  }
  for (CheckpointIndex::Entry &entry : index_.entries) entry.shard = rank[entry.shard];
  return std::move(index_);
}

}  // namespace

Result<CheckpointIndex> parse_checkpoint_index(std::string_view json) {
  IndexParser parser;
  Status status = parse_json(json, parser);
  Result<CheckpointIndex> index =
      status.ok() ? parser.finish() : Result<CheckpointIndex>(std::move(status));
  if (!index.ok()) return index.take_status().with_context("checkpoint index");
  return index;
}

}  // namespace sluice

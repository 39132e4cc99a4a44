#include "io/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <vector>

#include "io/gguf_set.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSafetensorsEnding = ".safetensors";
constexpr std::string_view kIndexEnding = ".safetensors.index.json";

// Names, sorted.
struct Listing {
  std::vector<std::string> safetensors;
  std::vector<std::string> gguf;
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
    if (name.ends_with(kSafetensorsEnding)) out.safetensors.push_back(name);
    if (name.ends_with(kGgufEnding)) out.gguf.push_back(name);
    if (name.ends_with(kIndexEnding)) out.indexes.push_back(name);
  }
  if (code) return system_error("readdir", code.default_error_condition().value(), path);
  for (auto *names : {&out.safetensors, &out.gguf, &out.indexes}) {
    std::sort(names->begin(), names->end());
  }
  return out;
}

// Whether all of them are files of one set; whether any is missing shows when it is opened.
bool are_one_set(const std::vector<std::string> &names) {
  if (names.empty()) return false;
  const auto first = parse_gguf_set_name(names.front());
  return first && std::all_of(names.begin(), names.end(), [&](const std::string &name) {
           const auto other = parse_gguf_set_name(name);
           return other && first->same_set(*other);
         });
}

Status nothing_to_open(const std::string &path, const Listing &listing) {
  const std::string hint = listing.indexes.empty()
                               ? std::string()
                               : fmt::format("; '{}' is there: open that", listing.indexes.front());
  return error(SLUICE_NOT_FOUND,
               "directory '{}' has neither '{}' nor a single *{} file (it has {} of them) nor a "
               "single *{} file or set (it has {} files){}",
               path, kIndexName, kSafetensorsEnding, listing.safetensors.size(), kGgufEnding,
               listing.gguf.size(), hint);
}

}  // namespace

Result<std::string> find_checkpoint(const std::string &directory) {
  const std::string index = join_path(directory, kIndexName);
  std::error_code code;
  if (fs::exists(to_path(index), code)) return index;
  if (code) return system_error("stat", code.default_error_condition().value(), index);
  SLUICE_ASSIGN(const Listing listing, list_directory(directory));
  if (listing.safetensors.size() == 1) return join_path(directory, listing.safetensors.front());
  const bool one_gguf = listing.gguf.size() == 1 || are_one_set(listing.gguf);
  if (listing.safetensors.empty() && one_gguf) return join_path(directory, listing.gguf.front());
  return nothing_to_open(directory, listing);
}

fs::path to_path(const std::string &text) {
  return fs::path(std::u8string(text.begin(), text.end()));
}

std::string to_text(const fs::path &path) {
  const std::u8string text = path.u8string();
  return std::string(text.begin(), text.end());
}

std::string join_path(const std::string &directory, std::string_view name) {
  return to_text(to_path(directory) / to_path(std::string(name)));
}

}  // namespace sluice

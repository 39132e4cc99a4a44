#include "io/gguf_set.h"

#include <fmt/format.h>

namespace sluice {
namespace {

constexpr size_t kDigits = 5;
constexpr std::string_view kOf = "-of-";

// Five digits at the end of `text`, which is then shorter by them.
std::optional<uint64_t> take_number(std::string_view &text) {
  if (text.size() < kDigits) return {};
  uint64_t number = 0;
  for (const char c : text.substr(text.size() - kDigits)) {
    if (c < '0' || c > '9') return {};
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  text.remove_suffix(kDigits);
  return number;
}

bool take_ending(std::string_view &text, std::string_view ending) {
  if (!text.ends_with(ending)) return false;
  text.remove_suffix(ending.size());
  return true;
}

}  // namespace

std::optional<GgufSetName> parse_gguf_set_name(std::string_view name) {
  if (!take_ending(name, kGgufEnding)) return {};
  const std::optional<uint64_t> count = take_number(name);
  if (!count || !take_ending(name, kOf)) return {};
  const std::optional<uint64_t> number = take_number(name);
  if (!number || !take_ending(name, "-")) return {};
  if (*number == 0 || *number > *count) return {};
  return GgufSetName{std::string(name), *number - 1, *count};
}

std::string gguf_set_name(std::string_view stem, uint64_t number, uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number + 1, count, kGgufEnding);
}

}  // namespace sluice

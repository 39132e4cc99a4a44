// File names of a GGUF set: "name-00002-of-00003.gguf", counted from 1.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace sluice {

struct GgufSetName {
  std::string stem;  // "name"
  uint64_t number;   // from 0
  uint64_t count;

  bool same_set(const GgufSetName &other) const {
    return stem == other.stem && count == other.count;
  }
};

inline constexpr std::string_view kGgufEnding = ".gguf";

// What a file name says; nothing when it isn't that of a set's file.
std::optional<GgufSetName> parse_gguf_set_name(std::string_view file_name);

// The name of file `number` (from 0).
std::string gguf_set_name(std::string_view stem, uint64_t number, uint64_t count);

}  // namespace sluice

// Which file of a directory is the checkpoint in it.
//
// Threads: any.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/status.h"

namespace sluice {

inline constexpr std::string_view kIndexName = "model.safetensors.index.json";

// The path of, in this order: model.safetensors.index.json; the only *.safetensors file; where
// there is no *.safetensors file, the only *.gguf file, or the first of the only set of them.
// Hidden files don't count (macOS leaves "._model.safetensors" behind).
// Returns: OK; NOT_FOUND (says what is there); errors of the system.
Result<std::string> find_checkpoint(const std::string &directory);

// Paths are UTF-8 in the C API, on Windows too.
std::filesystem::path to_path(const std::string &text);
std::string to_text(const std::filesystem::path &path);
std::string join_path(const std::string &directory, std::string_view name);

}  // namespace sluice

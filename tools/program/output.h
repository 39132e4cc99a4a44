// Everything that leaves the program: one JSON object or lines of text on stdout, sentences on
// stderr; and the wording of sizes and counts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runtime/sluice.h"

namespace program {

struct Failure;
using Json = nlohmann::ordered_json;

// A reader that went away (EPIPE) is no failure; anything else throws Failure.
void write_stdout(std::string_view text);
// Errors are ignored: there is nobody left to tell.
void write_stderr(std::string_view text);

// Indented, with a newline; bytes that are not UTF-8 become U+FFFD.
void write_json(const Json &object);

// {status, message, call, code}
[[nodiscard]] Json error_json(const Failure &failure);

// "driver" (cuda or emulated), "driver_version" and "driver_path".
void add_driver(const sluice_report &report, Json *json);
[[nodiscard]] std::string driver_version_text(int32_t version);  // 13000: "13.0"

// UINT64_MAX, the library's "none" and "unknown", becomes null.
[[nodiscard]] Json json_or_null(uint64_t value);
// Empty text becomes null.
[[nodiscard]] Json json_or_null(const char *text);

[[nodiscard]] std::string human_size(uint64_t bytes);                 // "402.7 MiB", "17 B"
[[nodiscard]] std::string human_limit(uint64_t bytes);                // UINT64_MAX: "none"
[[nodiscard]] std::string counted(uint64_t count, const char *noun);  // "1 tensor", "2 tensors"
[[nodiscard]] const char *format_name(uint32_t format);               // "safetensors", "gguf"
[[nodiscard]] double gigabytes_per_second(uint64_t bytes, double seconds);

// Control characters as \xNN: names and texts out of files can't move the terminal's cursor.
[[nodiscard]] std::string printable(std::string_view text);

// Breaks text at spaces into lines of at most `width` characters, joined by newlines.
[[nodiscard]] std::string wrapped(std::string_view text, size_t width);

// A row of a report: "label     text", further lines of text aligned under the first.
[[nodiscard]] std::string row(std::string_view label, std::string_view text);

}  // namespace program

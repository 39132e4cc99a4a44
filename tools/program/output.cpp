#include "tools/program/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/failure.h"
#include "tools/program/system.h"

namespace program {
namespace {

constexpr size_t kLabelWidth = 11;
constexpr size_t kTextWidth = 88;

// Returns 0 or errno's value.
int write_all(StandardStream stream, std::string_view text) {
  while (!text.empty()) {
    const int64_t written = write_some(stream, text);
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

void write_stdout(std::string_view text) {
  const int error = write_all(StandardStream::output, text);
  if (error != 0 && error != EPIPE)
    throw system_failure("writing to stdout failed", "write", error);
}

void write_stderr(std::string_view text) {
  static_cast<void>(write_all(StandardStream::error, text));
}

void write_json(const Json &object) {
  write_stdout(object.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
}

Json error_json(const Failure &failure) {
  return {{"status", failure.status},
          {"message", failure.what()},
          {"call", failure.call},
          {"code", failure.code}};
}

Json json_or_null(uint64_t value) {
  if (value == UINT64_MAX) return nullptr;
  return value;
}

Json json_or_null(const char *text) {
  if (*text == '\0') return nullptr;
  return text;
}

std::string human_size(uint64_t bytes) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_limit(uint64_t bytes) { return bytes == UINT64_MAX ? "none" : human_size(bytes); }

std::string counted(uint64_t count, const char *noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string driver_version_text(int32_t version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void add_driver(const sluice_report &report, Json *json) {
  (*json)["driver"] = report.driver_emulated ? "emulated" : "cuda";
  (*json)["driver_version"] = driver_version_text(report.driver_version);
  (*json)["driver_path"] = report.driver_path;
}

const char *format_name(uint32_t format) {
  if (format == SLUICE_FORMAT_SAFETENSORS) return "safetensors";
  if (format == SLUICE_FORMAT_GGUF) return "gguf";
  return "unknown";
}

double gigabytes_per_second(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string wrapped(std::string_view text, size_t width) {
  std::string result;
  while (text.size() > width || text.find('\n') != std::string_view::npos) {
    size_t cut = std::min(text.find('\n'), text.size());
    if (cut > width) cut = text.rfind(' ', width);
    if (cut == std::string_view::npos || cut == 0) cut = text.find_first_of(" \n", width);
    if (cut == std::string_view::npos) break;
    result.append(text.substr(0, cut)) += '\n';
    text.remove_prefix(cut + 1);
  }
  return result.append(text);
}

std::string row(std::string_view label, std::string_view text) {
  std::string result = fmt::format("{:<{}}", label, kLabelWidth);
  for (const char c : wrapped(text, kTextWidth)) {
    result += c;
    if (c == '\n') result.append(kLabelWidth, ' ');
  }
  return result += '\n';
}

}  // namespace program

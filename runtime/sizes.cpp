// Sizes as people write them: 4096, 256MiB, 8GiB, 1.5GB.
#include <cctype>
#include <charconv>

#include "runtime/options.h"

namespace sluice {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", uint64_t{1} << 10},
    {"kib", uint64_t{1} << 10},
    {"kb", 1000},
    {"m", uint64_t{1} << 20},
    {"mib", uint64_t{1} << 20},
    {"mb", 1000 * 1000},
    {"g", uint64_t{1} << 30},
    {"gib", uint64_t{1} << 30},
    {"gb", 1000 * 1000 * 1000},
    {"t", uint64_t{1} << 40},
    {"tib", uint64_t{1} << 40},
    {"tb", uint64_t{1000} * 1000 * 1000 * 1000},
};

uint64_t unit_bytes(std::string_view text) {
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Unit &unit : kUnits)
    if (unit.name == lower) return unit.bytes;
  return 0;
}

Status not_a_size(std::string_view text) {
  return error(SLUICE_INVALID_ARGUMENT,
               "'{}' is not a size; write bytes or a number with KiB, MiB, GiB, TiB, kB, MB, GB "
               "or TB, like 256MiB, or none for no limit",
               text);
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text) {
  if (text == "none") return SLUICE_NO_LIMIT;
  const char *end = text.data() + text.size();
  uint64_t whole = 0;
  auto at = std::from_chars(text.data(), end, whole);
  if (at.ec != std::errc()) return not_a_size(text);
  double fraction = 0;
  if (at.ptr != end && *at.ptr == '.') {
    double scale = 0.1;
    const char *digit = at.ptr + 1;
    if (digit == end || !std::isdigit(static_cast<unsigned char>(*digit))) return not_a_size(text);
    for (; digit != end && std::isdigit(static_cast<unsigned char>(*digit)); ++digit, scale /= 10)
      fraction += (*digit - '0') * scale;
    at.ptr = digit;
  }
  while (at.ptr != end && *at.ptr == ' ') ++at.ptr;
  const uint64_t unit = unit_bytes(std::string_view(at.ptr, static_cast<size_t>(end - at.ptr)));
  if (unit == 0) return not_a_size(text);
  uint64_t bytes = 0;
  const auto rest = static_cast<uint64_t>(fraction * static_cast<double>(unit) + 0.5);
  if (__builtin_mul_overflow(whole, unit, &bytes) || __builtin_add_overflow(bytes, rest, &bytes))
    return error(SLUICE_INVALID_ARGUMENT, "'{}' is more than 64 bits of bytes", text);
  return bytes;
}

std::string format_size(uint64_t bytes) {
  if (bytes == SLUICE_NO_LIMIT) return "no limit";
  constexpr const char *kNames[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  auto value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kNames)) {
    value /= 1024;
    ++unit;
  }
  const bool whole = (bytes & ((uint64_t{1} << (10 * unit)) - 1)) == 0;
  return whole ? fmt::format("{:.0f} {}", value, kNames[unit])
               : fmt::format("{:.2f} {}", value, kNames[unit]);
}

}  // namespace sluice

extern "C" sluice_status sluice_parse_size(const char *text, uint64_t *out_bytes) {
  const auto missing = [](const char *what) {
    return sluice::publish(sluice::error(SLUICE_INVALID_ARGUMENT, "{} is NULL", what));
  };
  if (!out_bytes) return missing("out_bytes");
  *out_bytes = 0;
  if (!text) return missing("text");
  try {
    auto size = sluice::parse_size(text);
    if (!size.ok()) return sluice::publish(size.take_status());
    *out_bytes = size.value();
    return SLUICE_OK;
  } catch (...) {
    return sluice::publish(sluice::Status::out_of_host_memory());
  }
}

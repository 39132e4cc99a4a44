// The rule of versioned structs: the first member is struct_size; what the caller's struct has
// beyond this library's must be zero, what it lacks reads as zero and isn't written.
#pragma once

#include <algorithm>
#include <cstring>
#include <string_view>

#include "runtime/status.h"

namespace sluice {

template <typename Struct>
Status read_struct(const Struct &given, const char *name, Struct *out) {
  const uint32_t size = given.struct_size;
  if (size < sizeof(uint32_t) * 2)
    return error(SLUICE_INVALID_ARGUMENT, "{}: struct_size is {}; set it to sizeof", name, size);
  const auto *bytes = reinterpret_cast<const unsigned char *>(&given);
  for (size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      return error(SLUICE_INVALID_ARGUMENT,
                   "{}: byte {} is set, but this version of sluice knows only {} bytes", name, i,
                   sizeof(Struct));
  std::memset(out, 0, sizeof(Struct));
  std::memcpy(out, &given, std::min<size_t>(size, sizeof(Struct)));
  out->struct_size = sizeof(Struct);
  return {};
}

// Checks that `out` can be written at all; call it before anything else.
template <typename Struct>
Status check_struct(const Struct *out, const char *name) {
  if (!out) return error(SLUICE_INVALID_ARGUMENT, "{}: NULL", name);
  if (out->struct_size < sizeof(uint32_t) * 2)
    return error(SLUICE_INVALID_ARGUMENT, "{}: struct_size is {}; set it to sizeof", name,
                 out->struct_size);
  return {};
}

template <typename Struct>
void write_struct(const Struct &value, Struct *out) {
  const uint32_t size = out->struct_size;
  std::memcpy(out, &value, std::min<size_t>(size, sizeof(Struct)));
  if (size > sizeof(Struct))
    std::memset(reinterpret_cast<unsigned char *>(out) + sizeof(Struct), 0, size - sizeof(Struct));
  out->struct_size = size;
}

// Text members have a fixed size; longer text is cut.
template <size_t size>
void copy_text(char (&target)[size], std::string_view text) noexcept {
  const size_t length = std::min(text.size(), size - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

}  // namespace sluice

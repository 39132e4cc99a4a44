// Writes GGUF files: nothing is checked, so that bad ones can be written too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace support::gguf {

// Value types.
enum : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64
};
// Some types of tensors.
enum : uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_K = 12, kI8 = 24 };

inline std::string le(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return out;
}
inline std::string u16(uint64_t value) { return le(value, 2); }
inline std::string u32(uint64_t value) { return le(value, 4); }
inline std::string u64(uint64_t value) { return le(value, 8); }
inline std::string text(std::string_view bytes) { return u64(bytes.size()) + std::string(bytes); }

inline std::string key(std::string_view name, uint32_t type, const std::string &value) {
  return text(name) + u32(type) + value;
}
inline std::string array(uint32_t type, uint64_t count, const std::string &elements) {
  return u32(type) + u64(count) + elements;
}
// dimensions: the one that varies fastest first.
inline std::string tensor(std::string_view name, const std::vector<uint64_t> &dimensions,
                          uint32_t type, uint64_t offset) {
  std::string out = text(name) + u32(dimensions.size());
  for (const uint64_t dimension : dimensions) out += u64(dimension);
  return out + u32(type) + u64(offset);
}

struct File {
  std::vector<std::string> keys;
  std::vector<std::string> tensors;
  std::string data;
  uint32_t version = 3;
  uint64_t alignment = 32;               // of the data's start; tell it by a key where it isn't 32
  std::optional<uint64_t> tensor_count;  // what the header says instead of the truth
  std::optional<uint64_t> key_count;

  std::string header() const {
    std::string out = "GGUF" + u32(version) + u64(tensor_count.value_or(tensors.size())) +
                      u64(key_count.value_or(keys.size()));
    for (const std::string &bytes : keys) out += bytes;
    for (const std::string &bytes : tensors) out += bytes;
    return out;
  }
  std::string bytes() const {
    std::string out = header();
    if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment, '\0');
    return out + data;
  }
};

// The keys of file `number` (from 0) of a set.
inline std::vector<std::string> split_keys(uint64_t number, uint64_t count, uint64_t tensors) {
  return {key("split.no", kUint16, u16(number)), key("split.count", kUint16, u16(count)),
          key("split.tensors.count", kInt32, u32(tensors))};
}

}  // namespace support::gguf

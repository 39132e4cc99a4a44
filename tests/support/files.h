// Temporary folders, files with known bytes, and small checkpoints.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/support/gguf.h"

namespace support {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::random_device random;
    do {
      path_ = std::filesystem::temp_directory_path() / ("sluice-test-" + std::to_string(random()));
    } while (!std::filesystem::create_directory(path_));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  std::string path() const { return path_.string(); }
  std::string file(const std::string &name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

// Bytes that differ from place to place, the same for the same seed.
inline std::vector<unsigned char> pattern(size_t bytes, uint64_t seed) {
  std::vector<unsigned char> data(bytes);
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (unsigned char &byte : data) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return data;
}

inline void write_file(const std::string &path, const void *data, size_t bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(static_cast<const char *>(data), static_cast<std::streamsize>(bytes));
  if (!out.flush()) std::abort();
}

// A safetensors file of U8 tensors "t0", "t1", ... of these sizes; returns the data that follows
// the header.
inline std::vector<unsigned char> write_checkpoint(const std::string &path,
                                                   const std::vector<size_t> &sizes,
                                                   uint64_t seed) {
  std::string header = "{";
  size_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    header += (i ? "," : "") + ("\"t" + std::to_string(i)) + "\":{\"dtype\":\"U8\",\"shape\":[" +
              std::to_string(sizes[i]) + "],\"data_offsets\":[" + std::to_string(offset) + "," +
              std::to_string(offset + sizes[i]) + "]}";
    offset += sizes[i];
  }
  header += "}";
  std::vector<unsigned char> data = pattern(offset, seed);
  std::ofstream out(path, std::ios::binary);
  uint64_t length = header.size();
  out.write(reinterpret_cast<const char *>(&length), sizeof length);
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(reinterpret_cast<const char *>(data.data()), static_cast<std::streamsize>(data.size()));
  if (!out.flush()) std::abort();
  return data;
}

// The same as a GGUF file of I8 tensors, whose data begin at multiples of 32.
inline std::vector<unsigned char> write_gguf(const std::string &path,
                                             const std::vector<size_t> &sizes, uint64_t seed) {
  size_t total = 0;
  for (const size_t size : sizes) total += size;
  std::vector<unsigned char> data = pattern(total, seed);
  gguf::File file;
  size_t offset = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    file.tensors.push_back(
        gguf::tensor("t" + std::to_string(i), {sizes[i]}, gguf::kI8, file.data.size()));
    file.data.append(reinterpret_cast<const char *>(data.data()) + offset, sizes[i]);
    file.data.resize((file.data.size() + 31) / 32 * 32);
    offset += sizes[i];
  }
  const std::string bytes = file.bytes();
  write_file(path, bytes.data(), bytes.size());
  return data;
}

}  // namespace support

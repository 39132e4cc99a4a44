// The file that `sluice bench io` reads, as a plain program sees it; and its place in the page
// cache.
#pragma once

#include <cstdint>
#include <string>

#include "tools/program/owned_fd.h"

namespace program {

// Memory that is shared with the page cache, as long as the owner lives.
class FileMapping {
 public:
  // Of the file's first `bytes`, at least 1. Throws Failure.
  FileMapping(const std::string &path, int fd, uint64_t bytes, bool at_once);
  ~FileMapping();
  FileMapping(const FileMapping &) = delete;
  FileMapping &operator=(const FileMapping &) = delete;

  [[nodiscard]] const unsigned char *data() const { return data_; }

 private:
  unsigned char *data_ = nullptr;
  uint64_t bytes_;
};

class BenchFile {
 public:
  // `most_bytes` 0: all of it. Throws Failure, also for an empty file.
  BenchFile(std::string path, uint64_t most_bytes);

  [[nodiscard]] const std::string &path() const { return path_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }  // that are read
  [[nodiscard]] uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The whole range, or Failure.
  void read(uint64_t offset, uint64_t bytes, void *target) const;
  // Around the page cache. `target` is aligned to kDirectAlignment and has room for `bytes`
  // rounded up to it.
  void read_direct(uint64_t offset, uint64_t bytes, void *target) const;
  [[nodiscard]] FileMapping map(bool at_once) const;

  void warm() const;
  void drop_from_cache() const;
  // The part in the page cache, 0 .. 1; negative: unknown.
  [[nodiscard]] double resident() const;

  static constexpr uint64_t kDirectAlignment = 4096;

 private:
  std::string path_;
  OwnedFd fd_;
  OwnedFd direct_fd_;
  int direct_error_ = 0;
  uint64_t file_bytes_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace program

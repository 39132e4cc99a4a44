// A file that has a temporary name until it is published, and is removed again if it isn't.
#pragma once

#include <cstdint>
#include <string>

#include "tools/program/owned_fd.h"

namespace program {

// The temporary name of what is to become `path`, beside it.
[[nodiscard]] std::string temporary_name(const std::string &path);

// Gives a finished file or folder its name. Without `replace`, what another program has put there
// meanwhile stays. Throws Failure.
void give_name(const std::string &temporary, const std::string &path, bool replace);

// Everything throws Failure, whose text names the path that the file is to get.
class NewFile {
 public:
  explicit NewFile(const std::string &path) : NewFile(path, temporary_name(path)) {}
  NewFile(std::string path, std::string temporary);
  NewFile(NewFile &&other) noexcept;
  NewFile &operator=(NewFile &&) = delete;
  ~NewFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string &path() const { return path_; }
  // Takes the room on disk now, where the file system can.
  void reserve(uint64_t bytes);
  // Threads: any.
  void write(const char *data, uint64_t bytes, uint64_t offset) const;
  // To the disk, and out of the page cache: who reads the file afterwards reads the disk.
  void sync();
  // Some file systems say only here that there is no room.
  void close();
  void publish(bool replace);
  // It is complete and has been named with its folder.
  void keep() { temporary_.clear(); }

 private:
  void require(int result, const char *call) const;

  std::string path_;
  std::string temporary_;  // empty: published
  OwnedFd fd_;
};

}  // namespace program

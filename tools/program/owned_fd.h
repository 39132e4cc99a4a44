// A file descriptor that is closed with its owner.
#pragma once

#include <utility>

#include "tools/program/files.h"

namespace program {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd &operator=(OwnedFd &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd() {
    if (fd_ >= 0) static_cast<void>(close_file(fd_));
  }

  [[nodiscard]] int get() const { return fd_; }
  // For files that were written: close can report what write could not. Returns close's answer.
  [[nodiscard]] int close() { return close_file(std::exchange(fd_, -1)); }

 private:
  int fd_ = -1;
};

}  // namespace program

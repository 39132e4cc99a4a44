#include "tools/program/new_file.h"

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/output.h"
#include "tools/program/system.h"

namespace program {

std::string temporary_name(const std::string &path) {
  return fmt::format("{}.{}.tmp", path, process_number());
}

void give_name(const std::string &temporary, const std::string &path, bool replace) {
  if (replace) {
    if (rename_over(temporary, path) == 0) return;
  } else {
    if (rename_new(temporary, path) == 0) return;
    if (errno == EEXIST) {
      throw system_failure(fmt::format("'{}' has appeared meanwhile", path), "rename", errno);
    }
  }
  throw system_failure(fmt::format("naming the finished '{}' failed", path), "rename", errno);
}

NewFile::NewFile(std::string path, std::string temporary)
    : path_(std::move(path)), fd_(make_file(temporary)) {
  if (fd_.get() < 0) {
    throw system_failure(fmt::format("creating '{}' failed", path_), "open", errno);
  }
  temporary_ = std::move(temporary);
}

NewFile::NewFile(NewFile &&other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)) {}

NewFile::~NewFile() {
  fd_ = OwnedFd();  // on Windows an open file keeps its folder from being removed
  if (!temporary_.empty()) remove_file(temporary_);
}

void NewFile::reserve(uint64_t bytes) {
  if (reserve_room(fd_.get(), bytes) == 0 || errno == EOPNOTSUPP) return;
  throw system_failure(
      fmt::format("reserving {} for '{}' failed; nothing of it was kept", human_size(bytes), path_),
      "fallocate", errno);
}

void NewFile::write(const char *data, uint64_t bytes, uint64_t offset) const {
  while (bytes != 0) {
    const int64_t count = write_at(fd_.get(), data, bytes, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw system_failure(fmt::format("writing '{}' failed after {}; nothing of it was kept",
                                       path_, human_size(offset)),
                           "pwrite", errno);
    }
    data += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<uint64_t>(count);
  }
}

void NewFile::sync() {
  require(sync_file(fd_.get()), "fsync");
  drop_from_cache(fd_.get());
}

void NewFile::close() { require(fd_.close(), "close"); }

void NewFile::publish(bool replace) {
  give_name(temporary_, path_, replace);
  keep();
}

void NewFile::require(int result, const char *call) const {
  if (result == 0) return;
  throw system_failure(fmt::format("writing '{}' failed; nothing of it was kept", path_), call,
                       errno);
}

}  // namespace program

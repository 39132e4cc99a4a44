#include "tools/program/repack_target.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/output.h"
#include "tools/program/system.h"

namespace program {
namespace {

namespace fs = std::filesystem;

// A folder's entries reach the disk with the folder. Not every file system can be told so.
void sync_folder(const std::string &path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) static_cast<void>(::fsync(fd.get()));
}

bool same_file(const std::string &a, const std::string &b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// A link is followed: what it leads to gets replaced, not the link.
std::string resolved(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  std::error_code error;
  if (!fs::is_symlink(path, error)) return path;
  const fs::path target = fs::canonical(path, error);
  return error ? path : target.string();
}

bool is_checkpoint_file(const fs::directory_entry &entry) {
  const std::string name = entry.path().filename().string();
  return entry.is_regular_file() &&
         (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"));
}

// Replacing a folder removes it: nothing may be in it that is not made anew.
void check_strangers(const std::string &folder) {
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(folder, ignored)) {
    if (is_checkpoint_file(entry)) continue;
    throw Failure(
        sluice_status_name(SLUICE_INVALID_STATE),
        fmt::format("'{}' holds '{}', which isn't part of a checkpoint and would be lost: name "
                    "another folder, or remove it first",
                    printable(folder), printable(entry.path().filename().string())));
  }
}

void remove_checkpoint_folder(const std::string &folder) {
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(folder, ignored)) {
    if (is_checkpoint_file(entry)) fs::remove(entry.path(), ignored);
  }
  fs::remove(folder, ignored);
}

void check_replaceable(const std::string &path, bool folder, bool force) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(path, ignored);
  if (is_folder != folder) {
    throw UsageError(fmt::format(
        "'{}' is a {}, and the new checkpoint is a {}: give it another name", printable(path),
        is_folder ? "folder" : "file", folder ? "folder" : "single file"));
  }
  if (is_folder && fs::is_empty(path, ignored)) return;
  if (!force) {
    throw Failure(sluice_status_name(SLUICE_INVALID_STATE),
                  fmt::format("'{}' is there already: --force replaces it", printable(path)));
  }
  if (is_folder) check_strangers(path);
}

}  // namespace

// ---- A file --------------------------------------------------------------------------------

NewFile::NewFile(const std::string &path, std::string shown) : shown_(std::move(shown)) {
  fd_ = OwnedFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (fd_.get() < 0)
    throw system_failure(fmt::format("creating '{}' failed", shown_), "open", errno);
}

void NewFile::reserve(uint64_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(fd_.get(), 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return;
  throw system_failure(fmt::format("reserving {} for '{}' failed; nothing of it was kept",
                                   human_size(bytes), shown_),
                       "fallocate", errno);
}

void NewFile::write(const char *data, uint64_t bytes, uint64_t offset) {
  while (bytes != 0) {
    const ssize_t count = ::pwrite(fd_.get(), data, bytes, static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw system_failure(fmt::format("writing '{}' failed after {}; nothing of it was kept",
                                       shown_, human_size(offset)),
                           "pwrite", errno);
    }
    data += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<uint64_t>(count);
  }
}

void NewFile::finish() {
  const char *call = "fsync";
  int result = ::fsync(fd_.get());
  if (result == 0) {
    static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED));
    call = "close";
    result = fd_.close();
  }
  if (result != 0) {
    throw system_failure(fmt::format("writing '{}' failed; nothing of it was kept", shown_), call,
                         errno);
  }
}

// ---- A checkpoint --------------------------------------------------------------------------

NewCheckpoint::NewCheckpoint(const std::string &path, bool folder, bool force,
                             const std::vector<std::string> &sources)
    : path_(resolved(path)), folder_(folder) {
  if (!folder && path.ends_with('/')) {
    throw UsageError(fmt::format("'{}' is a folder: name a file", printable(path)));
  }
  for (const std::string &source : sources) {
    if (!same_file(path_, source)) continue;
    throw UsageError(fmt::format(
        "'{}' is the checkpoint that is read: give the new one another name", printable(path)));
  }
  std::error_code ignored;
  replaces_ = fs::exists(fs::symlink_status(path_, ignored));
  if (replaces_) check_replaceable(path_, folder, force);
  const std::string parent = fs::path(path_).parent_path().string();
  parent_ = parent.empty() ? std::string(".") : parent;
  temporary_ = fmt::format("{}.{}.tmp", path_, process_number());
}

NewCheckpoint::~NewCheckpoint() {
  if (!begun_) return;
  for (const std::string &file : files_) static_cast<void>(::unlink(file.c_str()));
  if (folder_) static_cast<void>(::rmdir(temporary_.c_str()));
}

void NewCheckpoint::check_room(uint64_t bytes) const {
  const std::optional<uint64_t> room = room_in(parent_);
  if (!room || bytes <= *room) return;  // without an answer, making the file says what is wrong
  throw system_failure(fmt::format("'{}' has room for {}, and {} are to be written", parent_,
                                   human_size(*room), human_size(bytes)),
                       "statvfs", ENOSPC);
}

void NewCheckpoint::begin() {
  if (folder_ && ::mkdir(temporary_.c_str(), 0777) != 0) {
    throw system_failure(fmt::format("creating the folder '{}' failed", path_), "mkdir", errno);
  }
  begun_ = true;
}

NewFile NewCheckpoint::add_file(const std::string &name) {
  const std::string end = folder_ ? '/' + name : std::string();
  NewFile file(temporary_ + end, path_ + end);
  files_.push_back(temporary_ + end);
  return file;
}

void NewCheckpoint::rename_over() {
  // Without --force, what another program has put there meanwhile stays. Where the file system
  // can't be told so, the check at the start has to do.
  if (!replaces_) {
    if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
      return;
    }
    if (errno == EEXIST) {
      throw system_failure(fmt::format("'{}' has appeared meanwhile", path_), "renameat2", errno);
    }
  }
  if (::rename(temporary_.c_str(), path_.c_str()) == 0) return;
  throw system_failure(fmt::format("naming the finished '{}' failed", path_), "rename", errno);
}

// The old folder gets the temporary name, and is removed under it.
void NewCheckpoint::exchange_folders() {
  check_strangers(path_);
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE) == 0) {
    begun_ = false;
    remove_checkpoint_folder(temporary_);
    return;
  }
  const std::string old = fmt::format("{}.{}.old", path_, process_number());
  if (::rename(path_.c_str(), old.c_str()) != 0) {
    throw system_failure(fmt::format("moving the old '{}' away failed", path_), "rename", errno);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    static_cast<void>(::rename(old.c_str(), path_.c_str()));
    throw system_failure(fmt::format("naming the finished '{}' failed", path_), "rename", error);
  }
  begun_ = false;
  remove_checkpoint_folder(old);
}

void NewCheckpoint::publish() {
  if (folder_) sync_folder(temporary_);
  if (folder_ && replaces_) {
    exchange_folders();
  } else {
    rename_over();
  }
  begun_ = false;
  sync_folder(parent_);
}

}  // namespace program

#include "tools/program/repack_target.h"

#include <cerrno>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/output.h"
#include "tools/program/system.h"

namespace program {
namespace {

namespace fs = std::filesystem;

bool same_file(const std::string &a, const std::string &b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored);
}

// A link is followed: what it leads to gets replaced, not the link.
std::string resolved(std::string path) {
  while (path.size() > 1 && ends_with_separator(path)) path.pop_back();
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

NewCheckpoint::NewCheckpoint(const std::string &path, bool folder, bool force,
                             const std::vector<std::string> &sources)
    : path_(resolved(path)), folder_(folder) {
  if (!folder && ends_with_separator(path)) {
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
  temporary_ = temporary_name(path_);
}

NewCheckpoint::~NewCheckpoint() {
  files_.clear();
  if (begun_) remove_folder(temporary_);
}

void NewCheckpoint::check_room(uint64_t bytes) const {
  const std::optional<uint64_t> room = room_in(parent_);
  if (!room || bytes <= *room) return;  // without an answer, making the file says what is wrong
  throw system_failure(fmt::format("'{}' has room for {}, and {} are to be written", parent_,
                                   human_size(*room), human_size(bytes)),
                       "statvfs", ENOSPC);
}

void NewCheckpoint::begin() {
  if (!folder_) return;
  if (make_folder(temporary_) != 0) {
    throw system_failure(fmt::format("creating the folder '{}' failed", path_), "mkdir", errno);
  }
  begun_ = true;
}

NewFile *NewCheckpoint::add_file(const std::string &name) {
  const std::string end = folder_ ? '/' + name : std::string();
  return &files_.emplace_back(path_ + end, temporary_ + end);
}

// The old folder gets another name, and is removed under it.
void NewCheckpoint::replace_folder() {
  check_strangers(path_);
  if (exchange_names(temporary_, path_) == 0) {
    remove_checkpoint_folder(temporary_);
    return;
  }
  const std::string old = fmt::format("{}.{}.old", path_, process_number());
  if (rename_new(path_, old) != 0) {
    throw system_failure(fmt::format("moving the old '{}' away failed", path_), "rename", errno);
  }
  try {
    give_name(temporary_, path_, false);
  } catch (const Failure &) {
    static_cast<void>(rename_new(old, path_));
    throw;
  }
  remove_checkpoint_folder(old);
}

void NewCheckpoint::publish() {
  if (!folder_) {
    files_.front().publish(replaces_);
  } else {
    sync_folder(temporary_);
    if (replaces_) {
      replace_folder();
    } else {
      give_name(temporary_, path_, false);
    }
    for (NewFile &file : files_) file.keep();
    begun_ = false;
  }
  sync_folder(parent_);
}

}  // namespace program

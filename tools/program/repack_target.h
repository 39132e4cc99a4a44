// The place of a new checkpoint: a file or a folder that has a temporary name until it is complete,
// and is removed again unless it is published.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/program/owned_fd.h"

namespace program {

// A file that was made for writing. Everything throws Failure.
class NewFile {
 public:
  // `shown` is the name that errors tell.
  NewFile(const std::string &path, std::string shown);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string &shown() const { return shown_; }
  // Takes the room on disk now, where the file system can.
  void reserve(uint64_t bytes);
  void write(const char *data, uint64_t bytes, uint64_t offset);
  // To the disk, and out of the page cache: who reads the file afterwards reads the disk.
  void finish();

 private:
  std::string shown_;
  OwnedFd fd_;
};

class NewCheckpoint {
 public:
  // `path` is the name to get, `folder` whether it is one. With `force` what is there is replaced:
  // a file, or a folder that holds a checkpoint and nothing else. `sources` are paths that must not
  // be replaced. Throws Failure or UsageError.
  NewCheckpoint(const std::string &path, bool folder, bool force,
                const std::vector<std::string> &sources);
  ~NewCheckpoint();
  NewCheckpoint(const NewCheckpoint &) = delete;
  NewCheckpoint &operator=(const NewCheckpoint &) = delete;

  // Refuses what can't fit before anything is written.
  void check_room(uint64_t bytes) const;
  // Makes the folder, if it is to be one.
  void begin();
  // The name is that of a file in the folder; of a single file it isn't used.
  [[nodiscard]] NewFile add_file(const std::string &name);
  // Where it lies until it is published.
  [[nodiscard]] const std::string &temporary_path() const { return temporary_; }
  void publish();

 private:
  void rename_over();
  void exchange_folders();

  std::string path_;
  std::string parent_;
  std::string temporary_;
  bool folder_;
  bool replaces_ = false;           // something is there already
  bool begun_ = false;              // something has the temporary name
  std::vector<std::string> files_;  // that were made
};

}  // namespace program

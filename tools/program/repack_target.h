// The place of a new checkpoint: a file or a folder that has a temporary name until it is complete,
// and is removed again unless it is published.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tools/program/new_file.h"

namespace program {

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
  [[nodiscard]] NewFile *add_file(const std::string &name);
  // Where it lies until it is published.
  [[nodiscard]] const std::string &temporary_path() const { return temporary_; }
  void publish();

 private:
  void replace_folder();

  std::string path_;
  std::string parent_;
  std::string temporary_;
  bool folder_;
  bool replaces_ = false;  // something is there already
  bool begun_ = false;     // a folder has the temporary name
  std::deque<NewFile> files_;
};

}  // namespace program

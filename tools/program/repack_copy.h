// Copies the bytes of tensors from the files of a checkpoint into new ones, in pieces: by the
// system where it can, else through a buffer of kCopyPieceBytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/program/new_file.h"
#include "tools/program/progress.h"
#include "tools/program/repack_plan.h"

namespace program {

constexpr uint64_t kCopyPieceBytes = uint64_t{16} << 20;

class TensorCopier {
 public:
  // Opens the source's files. Throws Failure.
  explicit TensorCopier(const RepackSource &source);

  // The data of one file; its header is not written here.
  void copy(const RepackFile &plan, NewFile *target);
  // Throws Failure if a file of the source was written to since it was opened.
  void check_sources() const;

 private:
  struct File {
    OwnedFd fd;
    FileState state;
  };
  struct Run {
    uint32_t shard = 0;
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t bytes = 0;
  };

  [[nodiscard]] std::vector<Run> runs_of(const RepackFile &plan) const;
  void copy_run(Run run, NewFile *target);
  // Returns the number of bytes that the system copied; 0: it can't.
  [[nodiscard]] uint64_t copy_by_system(const Run &run, uint64_t bytes, const NewFile &target);
  void copy_through_buffer(const Run &run, uint64_t bytes, NewFile *target);

  const RepackSource &source_;
  std::vector<File> files_;
  std::vector<char> buffer_;
  bool by_system_ = true;
  Progress progress_{"copying"};
  uint64_t bytes_done_ = 0;
};

}  // namespace program

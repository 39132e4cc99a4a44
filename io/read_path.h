// Which way a file's bytes are read, by where they are: from the page cache by several workers,
// from the disk around it, or buffered where direct reads don't work. With the reason in words.
#pragma once

#include <string>

#include "io/file.h"

namespace sluice {

struct ReadPath {
  bool direct = false;
  // By the worker's own positioned reads: what is in the page cache is copied by several workers,
  // where one io_uring would copy it alone.
  bool by_worker = false;
  std::string reason;
};

// For the `bytes` from `offset` on.
ReadPath choose_path(File &file, uint64_t offset, uint64_t bytes);

}  // namespace sluice

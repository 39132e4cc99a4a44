// Which way a file's bytes are read, by where they are: from the page cache by several workers,
// from the disk around it, or buffered where direct reads don't work. With the reason in words.
#pragma once

#include <string>

#include "io/file.h"

namespace sluice {

struct ReadPath {
  bool direct = false;
  bool cached = false;  // most of the bytes are in the page cache
  std::string reason;
};

// For the `bytes` from `offset` on.
ReadPath choose_path(File &file, uint64_t offset, uint64_t bytes);

}  // namespace sluice

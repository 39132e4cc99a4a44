// Which way the bytes of a read take, by where they are: what is in the page cache is copied by
// several workers at once, what is on the disk is read around the page cache, or buffered where
// direct reads don't work. A file that is partly cached is split. With the reasons in words.
#pragma once

#include <string>
#include <vector>

#include "io/file.h"
#include "io/read_plan.h"

namespace sluice {

enum class Residency { kUnknown, kNone, kMixed, kAll };

// How one file of a read is gone about.
struct FileRoute {
  File *file = nullptr;
  uint64_t first = 0, end = 0;  // the ranges of the read lie in between
  Residency residency = Residency::kUnknown;
  bool direct = false;    // what is on the disk is read around the page cache
  bool uncached = false;  // else: read so that it doesn't stay in the page cache
  std::string reason;
};

// Looks at samples of the page cache and at what the options ask for; fills in the rest of `route`.
void choose_route(FileRoute &route);

// Splits the plan by where each piece's bytes are: `plan.disk_pieces` come first.
void place_pieces(ReadPlan &plan, const std::vector<FileRoute> &routes);

// What the plan came to, in words.
std::string describe_routes(const ReadPlan &plan, const std::vector<FileRoute> &routes);

}  // namespace sluice

// From ranges to reads: a pure function, no files or devices touched.
//
// Ranges that lie near each other in a file share one read into a slot of the ring; each range's
// part is then copied from the slot to where it belongs (a segment). A range that goes to host
// memory alone, or to pinned host memory and a device, is read straight into that memory.
#pragma once

#include <span>
#include <vector>

#include "io/file.h"

namespace sluice {

struct ReadRange {
  File *file = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t device_address = 0;
  std::byte *host = nullptr;
  bool host_pinned = false;  // a copy engine may read from `host`
  bool direct = false;       // may be read around the page cache
  const char *name = nullptr;
};

struct ReadSegment {
  uint32_t buffer_offset = 0;
  uint32_t bytes = 0;
  uint64_t device_address = 0;
  std::byte *host = nullptr;
};

// For errors: whose bytes a place in a piece is.
struct ReadName {
  uint64_t end_offset = 0;  // of the range, in its file
  const char *name = nullptr;
};

struct ReadPiece {
  File *file = nullptr;
  const std::byte *source = nullptr;  // in place of a file: host memory, copied into a slot
  uint64_t offset = 0;
  uint32_t length_bytes = 0;  // to ask for when direct
  uint32_t needed_bytes = 0;  // that must arrive
  bool direct = false;
  bool cached = false;        // its bytes are in RAM: the disk's tuner has no say
  bool uncached = false;      // else: they shall not stay there
  std::byte *host = nullptr;  // read straight to here; nullptr: into a slot
  uint32_t first_segment = 0;
  uint32_t segment_count = 0;
  uint32_t first_range = 0;  // of the plan's range_order: the ranges that it has bytes of
  uint32_t range_count = 0;
  uint64_t payload_bytes = 0;  // of the ranges, for progress
};

struct ReadPlan {
  std::vector<ReadPiece> pieces;  // those from the disk first, once they are placed
  size_t disk_pieces = 0;
  std::vector<ReadSegment> segments;
  std::vector<uint32_t> range_order;  // of those that aren't empty, by their place in the files
  std::vector<ReadName> names;        // in the same order
  uint64_t total_bytes = 0;

  // The name, or null, of the piece's range that the byte at `offset` of the file is needed for; of
  // its first one where there is none.
  const char *name_at(const ReadPiece &piece, uint64_t offset) const noexcept;
};

// `slot_bytes` is a multiple of kDirectAlignment.
ReadPlan plan_reads(std::span<const ReadRange> ranges, uint64_t slot_bytes);

}  // namespace sluice

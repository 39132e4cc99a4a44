// The life of one read, whatever performs it: short counts, interruptions, refused flags and ends
// of files are judged here and nowhere else.
//
// Invariant: `got_bytes` bytes from `offset` on are in the buffer; the operation is done when all
// `needed_bytes` are. `length_bytes` may be longer, for alignment past the end of the file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/file.h"

namespace sluice {

enum class ReadStep { kAgain, kDone, kFailed };

struct ReadOperation {
  File *file = nullptr;
  std::byte *buffer = nullptr;  // aligned like `offset` when direct
  uint64_t offset = 0;
  uint32_t length_bytes = 0;
  uint32_t needed_bytes = 0;
  bool direct = false;
  bool uncached = false;  // what is read buffered shall not stay in the page cache
  bool fixed = false;     // the buffer lies in memory that is registered with the ring
  bool asked_uncached = false;  // the read under way carries the flag

  uint32_t got_bytes = 0;
  uint32_t attempts = 0;  // without progress
  int error_number = 0;   // when it failed; 0: the file ended
  uint32_t retries = 0;

  // What to ask for next.
  std::byte *next_buffer() const noexcept { return buffer + got_bytes; }
  uint64_t next_offset() const noexcept { return offset + got_bytes; }
  uint32_t next_bytes() const noexcept {
    return (direct ? length_bytes : needed_bytes) - got_bytes;
  }
  // Decides how the next read is made, first of all, and gives the descriptor: other operations on
  // the file may have found that direct reads, or the flag, don't work after all. What they find
  // while this read is under way changes nothing about what it was asked with.
  int choose() noexcept {
    if (direct && file->direct() < 0) direct = false;
    asked_uncached = uncached && !direct && file->uncached_reads();
    return direct ? file->direct() : file->buffered();
  }

  // Takes a result, a count or a negated errno, and says how to go on.
  ReadStep advance(int result) noexcept;
  // After kFailed.
  Status failure() const noexcept;

 private:
  ReadStep again() noexcept;
  ReadStep refused(int number) noexcept;
};

}  // namespace sluice

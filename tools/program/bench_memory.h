// Page-locked memory from sluice: pieces of sluice_pinned_alloc that together hold a part of the
// file at a time. Threads: reading its members from any.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/sluice.h"

namespace program {

// Writes to each page: memory that the system hasn't given yet it must give now.
void touch_pages(unsigned char *memory, uint64_t bytes);

class PinnedPieces {
 public:
  // Three of them fill an arena of the library but for its header.
  static constexpr uint64_t kPieceBytes = uint64_t{10} << 20;

  explicit PinnedPieces(sluice_device *device) : device_(device) {}
  ~PinnedPieces();
  PinnedPieces(const PinnedPieces &) = delete;
  PinnedPieces &operator=(const PinnedPieces &) = delete;

  // Two pieces or none. Throws Failure; what was added before stays.
  void add_two();

  [[nodiscard]] uint64_t bytes() const { return pieces_.size() * kPieceBytes; }
  // Where the file's byte at `offset` is put: the pieces are used again and again.
  [[nodiscard]] unsigned char *at(uint64_t offset) const {
    const uint64_t place = offset % bytes();
    return pieces_[place / kPieceBytes] + place % kPieceBytes;
  }
  void fill(unsigned char value);
  void touch();

 private:
  sluice_device *device_;
  std::vector<unsigned char *> pieces_;
};

}  // namespace program

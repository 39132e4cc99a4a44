#include "tools/program/bench_memory.h"

#include <cstring>

#include "tools/program/bench_file.h"
#include "tools/program/failure.h"

namespace program {

void touch_pages(unsigned char *memory, uint64_t bytes) {
  constexpr uint64_t kPageBytes = 4096;
  auto *volatile_memory = static_cast<volatile unsigned char *>(memory);
  for (uint64_t at = 0; at < bytes; at += kPageBytes) volatile_memory[at] = 1;
}

PinnedPieces::~PinnedPieces() {
  for (unsigned char *piece : pieces_) static_cast<void>(sluice_pinned_free(device_, piece));
}

void PinnedPieces::add_two() {
  void *first = nullptr;
  void *second = nullptr;
  pieces_.reserve(pieces_.size() + 2);
  check(sluice_pinned_alloc(device_, kPieceBytes, BenchFile::kDirectAlignment, &first));
  const sluice_status status =
      sluice_pinned_alloc(device_, kPieceBytes, BenchFile::kDirectAlignment, &second);
  if (status != SLUICE_OK) {
    const Failure failure = library_failure(status);
    static_cast<void>(sluice_pinned_free(device_, first));
    throw failure;
  }
  pieces_.push_back(static_cast<unsigned char *>(first));
  pieces_.push_back(static_cast<unsigned char *>(second));
}

void PinnedPieces::fill(unsigned char value) {
  for (unsigned char *piece : pieces_) std::memset(piece, value, kPieceBytes);
}

void PinnedPieces::touch() {
  for (unsigned char *piece : pieces_) touch_pages(piece, kPieceBytes);
}

}  // namespace program

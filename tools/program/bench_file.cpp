#include "tools/program/bench_file.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tools/program/bench_measure.h"
#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{2} << 20;

void read_range(const std::string &path, int fd, uint64_t offset, uint64_t needed, uint64_t bytes,
                unsigned char *target) {
  for (uint64_t done = 0; done < needed;) {
    const int64_t count = read_at(fd, target + done, bytes - done, offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw system_failure(fmt::format("reading '{}' at {} failed", path, offset + done), "pread",
                           errno);
    }
    if (count == 0) {
      throw Failure(sluice_status_name(SLUICE_END_OF_FILE),
                    fmt::format("'{}' now ends at {}: it was truncated", path, offset + done));
    }
    done += static_cast<uint64_t>(count);
  }
}

}  // namespace

FileMapping::FileMapping(const std::string &path, int fd, uint64_t bytes, bool at_once)
    : data_(static_cast<unsigned char *>(map_file(fd, bytes, at_once))), bytes_(bytes) {
  if (data_ == nullptr) {
    throw system_failure(fmt::format("mapping '{}' failed", path), "mmap", errno);
  }
}

FileMapping::~FileMapping() { unmap_file(data_, bytes_); }

BenchFile::BenchFile(std::string path, uint64_t most_bytes) : path_(std::move(path)) {
  fd_ = OwnedFd(open_to_read(path_));
  const std::optional<FileState> state = fd_.get() < 0 ? std::nullopt : state_of(fd_.get());
  if (!state) {
    throw system_failure(fmt::format("opening '{}' failed", printable(path_)), "open", errno);
  }
  if (!state->regular || state->bytes == 0) {
    throw Failure(sluice_status_name(SLUICE_INVALID_ARGUMENT),
                  fmt::format("'{}' is {}: name a file with some data", printable(path_),
                              state->regular ? "empty" : "not a regular file"));
  }
  file_bytes_ = state->bytes;
  bytes_ = most_bytes == 0 ? file_bytes_ : std::min(most_bytes, file_bytes_);
  direct_fd_ = OwnedFd(open_to_read_direct(path_));
  if (direct_fd_.get() < 0) direct_error_ = errno;
}

void BenchFile::read(uint64_t offset, uint64_t bytes, void *target) const {
  read_range(path_, fd_.get(), offset, bytes, bytes, static_cast<unsigned char *>(target));
}

void BenchFile::read_direct(uint64_t offset, uint64_t bytes, void *target) const {
  if (direct_fd_.get() < 0) {
    throw system_failure(fmt::format("opening '{}' for direct reads failed", path_), "open",
                         direct_error_);
  }
  const uint64_t rounded = (bytes + kDirectAlignment - 1) / kDirectAlignment * kDirectAlignment;
  read_range(path_, direct_fd_.get(), offset, bytes, rounded, static_cast<unsigned char *>(target));
}

FileMapping BenchFile::map(bool at_once) const {
  return FileMapping(path_, fd_.get(), bytes_, at_once);
}

void BenchFile::warm() const {
  const unsigned threads = thread_counts().back();
  std::vector<std::vector<char>> buffers(threads, std::vector<char>(kPieceBytes));
  move_pieces(threads, bytes_, kPieceBytes, [&](unsigned thread, uint64_t offset, uint64_t bytes) {
    read(offset, bytes, buffers[thread].data());
  });
}

void BenchFile::drop_from_cache() const { program::drop_from_cache(fd_.get()); }

double BenchFile::resident() const { return cached_part(path_, fd_.get(), bytes_).value_or(-1); }

}  // namespace program

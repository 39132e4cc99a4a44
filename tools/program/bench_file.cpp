#include "tools/program/bench_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/program/bench_measure.h"
#include "tools/program/failure.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{2} << 20;

void read_range(const std::string &path, int fd, uint64_t offset, uint64_t needed, uint64_t bytes,
                unsigned char *target) {
  for (uint64_t done = 0; done < needed;) {
    const ssize_t count =
        ::pread(fd, target + done, bytes - done, static_cast<off_t>(offset + done));
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

FileMapping::FileMapping(const std::string &path, int fd, uint64_t bytes, bool populate)
    : bytes_(bytes) {
  const int flags = MAP_SHARED | (populate ? MAP_POPULATE : 0);
  void *data = ::mmap(nullptr, bytes, PROT_READ, flags, fd, 0);
  if (data == MAP_FAILED) {
    throw system_failure(fmt::format("mapping '{}' failed", path), "mmap", errno);
  }
  data_ = static_cast<unsigned char *>(data);
}

FileMapping::~FileMapping() { static_cast<void>(::munmap(data_, bytes_)); }

double FileMapping::resident() const {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes_ + page - 1) / page);
  if (::mincore(data_, bytes_, pages.data()) != 0) return -1;
  const auto count = std::count_if(pages.begin(), pages.end(),
                                   [](unsigned char flags) { return (flags & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(pages.size());
}

BenchFile::BenchFile(std::string path, uint64_t most_bytes) : path_(std::move(path)) {
  fd_ = OwnedFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts {};
  if (fd_.get() < 0 || ::fstat(fd_.get(), &facts) != 0) {
    throw system_failure(fmt::format("opening '{}' failed", printable(path_)), "open", errno);
  }
  if (!S_ISREG(facts.st_mode) || facts.st_size == 0) {
    throw Failure(sluice_status_name(SLUICE_INVALID_ARGUMENT),
                  fmt::format("'{}' is {}: name a file with some data", printable(path_),
                              S_ISREG(facts.st_mode) ? "empty" : "not a regular file"));
  }
  file_bytes_ = static_cast<uint64_t>(facts.st_size);
  bytes_ = most_bytes == 0 ? file_bytes_ : std::min(most_bytes, file_bytes_);
  direct_fd_ = OwnedFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (direct_fd_.get() < 0) direct_error_ = errno;
  // mincore claims that everything is there for files of others.
  shows_residency_ = facts.st_uid == ::geteuid() || ::access(path_.c_str(), W_OK) == 0;
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

FileMapping BenchFile::map(bool populate) const {
  return FileMapping(path_, fd_.get(), bytes_, populate);
}

void BenchFile::warm() const {
  const unsigned threads = thread_counts().back();
  std::vector<std::vector<char>> buffers(threads, std::vector<char>(kPieceBytes));
  move_pieces(threads, bytes_, kPieceBytes, [&](unsigned thread, uint64_t offset, uint64_t bytes) {
    read(offset, bytes, buffers[thread].data());
  });
}

void BenchFile::drop_from_cache() const {
  static_cast<void>(::fdatasync(fd_.get()));  // pages that are not yet on disk can't be dropped
  static_cast<void>(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED));
}

double BenchFile::resident() const { return shows_residency_ ? map(false).resident() : -1; }

}  // namespace program

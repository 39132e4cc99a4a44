#include "tools/program/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tools/program/owned_fd.h"

namespace program {

int open_to_read(const std::string &path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

int open_to_read_direct(const std::string &path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
}

int make_file(const std::string &path) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
}

int make_temporary(std::string *path) { return ::mkostemp(path->data(), O_CLOEXEC); }
int close_file(int file) { return ::close(file); }

std::optional<FileState> state_of(int file) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return std::nullopt;
  return FileState{static_cast<uint64_t>(facts.st_size),
                   int64_t{facts.st_mtim.tv_sec} * 1'000'000'000 + facts.st_mtim.tv_nsec,
                   S_ISREG(facts.st_mode)};
}

int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset) {
  return ::pread(file, buffer, bytes, static_cast<off_t>(offset));
}

int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset) {
  return ::pwrite(file, data, bytes, static_cast<off_t>(offset));
}

// These answers mean "not between these two files", on any kernel since 4.5.
int64_t copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset, uint64_t bytes) {
  auto read_from = static_cast<off_t>(from_offset);
  auto write_to = static_cast<off_t>(to_offset);
  const ssize_t count = ::copy_file_range(from, &read_from, to, &write_to, bytes, 0);
  if (count < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EPERM ||
                    errno == ETXTBSY)) {
    errno = EOPNOTSUPP;
  }
  return count;
}

void will_read_in_order(int file) {
  static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL));
}

int reserve_room(int file, uint64_t bytes) {
  int result = 0;
  do {
    result = ::fallocate(file, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && (errno == ENOSYS || errno == EINVAL)) errno = EOPNOTSUPP;
  return result;
}

int sync_file(int file) { return ::fsync(file); }

// A folder's entries reach the disk with the folder.
void sync_folder(const std::string &path) {
  const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() >= 0) static_cast<void>(::fsync(fd.get()));
}

void remove_file(const std::string &path) { static_cast<void>(::unlink(path.c_str())); }
int make_folder(const std::string &path) { return ::mkdir(path.c_str(), 0777); }
void remove_folder(const std::string &path) { static_cast<void>(::rmdir(path.c_str())); }

int rename_over(const std::string &from, const std::string &to) {
  return ::rename(from.c_str(), to.c_str());
}

int rename_new(const std::string &from, const std::string &to) {
  const int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  return result == 0 || errno == EEXIST ? result : rename_over(from, to);
}

int exchange_names(const std::string &a, const std::string &b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
}

std::optional<uint64_t> room_in(const std::string &folder) {
  struct statvfs facts {};
  if (::statvfs(folder.c_str(), &facts) != 0) return std::nullopt;
  return uint64_t{facts.f_bavail} * facts.f_frsize;
}

bool ends_with_separator(std::string_view path) { return path.ends_with('/'); }

// ---- The page cache ------------------------------------------------------------------------

const bool kCanDropFromCache = true;

void drop_from_cache(int file) {
  static_cast<void>(::fdatasync(file));  // pages that are not yet on disk can't be dropped
  static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
}

std::optional<double> cached_part(const std::string &path, int file, uint64_t bytes) {
  struct stat facts {};
  if (::fstat(file, &facts) != 0) return std::nullopt;
  // mincore claims that everything is there for files of others.
  if (facts.st_uid != ::geteuid() && ::access(path.c_str(), W_OK) != 0) return std::nullopt;
  void *memory = map_file(file, bytes, false);
  if (memory == nullptr) return std::nullopt;
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((bytes + page - 1) / page);
  const int result = ::mincore(memory, bytes, pages.data());
  unmap_file(memory, bytes);
  if (result != 0) return std::nullopt;
  const auto count = std::count_if(pages.begin(), pages.end(),
                                   [](unsigned char flags) { return (flags & 1) != 0; });
  return static_cast<double>(count) / static_cast<double>(pages.size());
}

void *map_file(int file, uint64_t bytes, bool at_once) {
  const int flags = MAP_SHARED | (at_once ? MAP_POPULATE : 0);
  void *memory = ::mmap(nullptr, bytes, PROT_READ, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

void unmap_file(void *memory, uint64_t bytes) { static_cast<void>(::munmap(memory, bytes)); }

}  // namespace program

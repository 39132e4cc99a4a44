#include "tools/program/system.h"

#include <cstdio>
#include <cstdlib>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace program {

int open_to_read(const std::string &path) { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }

int open_to_write(const std::string &path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

int make_temporary(std::string *path) { return ::mkostemp(path->data(), O_CLOEXEC); }
int close_file(int file) { return ::close(file); }

int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset) {
  return ::pread(file, buffer, bytes, static_cast<off_t>(offset));
}

int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset) {
  return ::pwrite(file, data, bytes, static_cast<off_t>(offset));
}

void remove_file(const std::string &path) { static_cast<void>(::unlink(path.c_str())); }
void remove_folder(const std::string &path) { static_cast<void>(::rmdir(path.c_str())); }

int rename_file(const std::string &from, const std::string &to) {
  return ::rename(from.c_str(), to.c_str());
}

std::optional<uint64_t> room_in(const std::string &folder) {
  struct statvfs facts {};
  if (::statvfs(folder.c_str(), &facts) != 0) return std::nullopt;
  return uint64_t{facts.f_bavail} * facts.f_frsize;
}

int process_number() { return ::getpid(); }

void secure_standard_streams() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free number is fd itself. Opened for reading, so that writing still fails.
    if (fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDONLY) != fd) return;
  }
}

int64_t write_some(StandardStream stream, std::string_view text) {
  return ::write(static_cast<int>(stream), text.data(), text.size());
}

bool stderr_is_terminal() {
  const char *term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

size_t terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

void take_arguments(int *, char ***) {}

}  // namespace program

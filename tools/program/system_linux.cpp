#include "tools/program/system.h"

#include <cstdlib>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace program {

int process_number() { return ::getpid(); }

double processor_seconds() {
  rusage use{};
  static_cast<void>(getrusage(RUSAGE_SELF, &use));
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

void *open_library(const char *path) { return ::dlopen(path, RTLD_NOW | RTLD_LOCAL); }
void *library_symbol(void *library, const char *name) { return ::dlsym(library, name); }

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

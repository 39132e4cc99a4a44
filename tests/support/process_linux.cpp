#include "tests/support/process.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace support {
namespace {

size_t entries(const char *folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto &entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace

void set_environment(const char *name, const char *value) {
  if (value)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

size_t open_descriptors() { return entries("/proc/self/fd"); }
size_t running_threads() { return entries("/proc/self/task"); }

bool limit_descriptors(size_t count) {
  static const rlimit before = [] {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit;
  }();
  if (count > before.rlim_max) return false;
  const rlimit now{count == 0 ? before.rlim_cur : count, before.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &now) == 0;
}

std::string own_program() { return "/proc/self/exe"; }

int run_self(const std::vector<std::string> &arguments) {
  std::string name = "test";
  std::vector<char *> pointers{name.data()};
  for (const std::string &argument : arguments)
    pointers.push_back(const_cast<char *>(argument.c_str()));
  pointers.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv("/proc/self/exe", pointers.data());
    _exit(99);
  }
  int status = -1;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const char *null_device() { return "/dev/null"; }

}  // namespace support

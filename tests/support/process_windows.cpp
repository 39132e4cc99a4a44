#include "tests/support/process.h"

#include <windows.h>

#include <cstdlib>

#include "runtime/wide_text_windows.h"

namespace support {

void set_environment(const char *name, const char *value) {
  _putenv_s(name, value ? value : "");  // an empty one is removed
  SetEnvironmentVariableW(sluice::wide(name).c_str(),
                          value ? sluice::wide(value).c_str() : nullptr);
}

size_t open_descriptors() {
  DWORD count = 0;
  GetProcessHandleCount(GetCurrentProcess(), &count);
  return count;
}

size_t running_threads() { return 0; }
bool limit_descriptors(size_t) { return false; }

std::string own_program() {
  char path[MAX_PATH];
  return {path, GetModuleFileNameA(nullptr, path, MAX_PATH)};
}

int run_self(const std::vector<std::string> &arguments) {
  std::string line = "\"" + own_program() + "\"";
  for (const std::string &argument : arguments) line += " \"" + argument + "\"";
  STARTUPINFOA start{};
  start.cb = sizeof start;
  PROCESS_INFORMATION child{};
  if (!CreateProcessA(nullptr, line.data(), nullptr, nullptr, TRUE, 0, nullptr, nullptr, &start,
                      &child))
    return -1;
  DWORD code = 0;
  WaitForSingleObject(child.hProcess, INFINITE);
  GetExitCodeProcess(child.hProcess, &code);
  CloseHandle(child.hThread);
  CloseHandle(child.hProcess);
  return static_cast<int>(code);
}

const char *null_device() { return "NUL"; }

}  // namespace support

#include "tools/program/system.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <shellapi.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "tools/program/wide_text_windows.h"

namespace program {
namespace {

constexpr uint64_t kMostBytesPerCall = uint64_t{1} << 30;

}  // namespace

int process_number() { return _getpid(); }

double processor_seconds() {
  FILETIME created{}, ended{}, kernel{}, user{};
  GetProcessTimes(GetCurrentProcess(), &created, &ended, &kernel, &user);
  const auto seconds = [](const FILETIME &time) {  // of units of 100 ns
    return static_cast<double>(uint64_t{time.dwHighDateTime} << 32 | time.dwLowDateTime) / 1e7;
  };
  return seconds(kernel) + seconds(user);
}

void *open_library(const char *path) {
  std::wstring name = wide(path);
  std::replace(name.begin(), name.end(), L'/', L'\\');
  return LoadLibraryW(name.c_str());
}

void *library_symbol(void *library, const char *name) {
  return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

void secure_standard_streams() {
  _setmode(static_cast<int>(StandardStream::output), _O_BINARY);
  _setmode(static_cast<int>(StandardStream::error), _O_BINARY);
  SetConsoleOutputCP(CP_UTF8);
}

int64_t write_some(StandardStream stream, std::string_view text) {
  const auto bytes = static_cast<unsigned>(std::min<uint64_t>(text.size(), kMostBytesPerCall));
  const int written = _write(static_cast<int>(stream), text.data(), bytes);
  if (written < 0 && (_doserrno == ERROR_NO_DATA || _doserrno == ERROR_BROKEN_PIPE)) errno = EPIPE;
  return written;
}

bool stderr_is_terminal() {
  DWORD mode = 0;
  const HANDLE console = GetStdHandle(STD_ERROR_HANDLE);
  // A console that doesn't know control sequences is left alone.
  return GetConsoleMode(console, &mode) != 0 &&
         SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0;
}

size_t terminal_columns() {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_ERROR_HANDLE), &info)) return 0;
  return static_cast<size_t>(info.srWindow.Right - info.srWindow.Left + 1);
}

void take_arguments(int *count, char ***arguments) {
  static std::vector<std::string> texts;
  static std::vector<char *> pointers;
  int wide_count = 0;
  wchar_t **wide_arguments = CommandLineToArgvW(GetCommandLineW(), &wide_count);
  if (!wide_arguments) return;
  for (int i = 0; i < wide_count; ++i) texts.push_back(utf8(wide_arguments[i]));
  LocalFree(wide_arguments);
  for (std::string &text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  *count = wide_count;
  *arguments = pointers.data();
}

}  // namespace program

#include "tools/program/system.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <process.h>
#include <shellapi.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>
#include <vector>

namespace program {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr uint64_t kMostBytesPerCall = uint64_t{1} << 30;

std::wstring wide(std::string_view text) {
  const int size = static_cast<int>(text.size());
  const int length = MultiByteToWideChar(CP_UTF8, 0, text.data(), size, nullptr, 0);
  std::wstring result(static_cast<size_t>(length), L'\0');
  MultiByteToWideChar(CP_UTF8, 0, text.data(), size, result.data(), length);
  return result;
}

std::string utf8(std::wstring_view text) {
  const int size = static_cast<int>(text.size());
  const int length =
      WideCharToMultiByte(CP_UTF8, 0, text.data(), size, nullptr, 0, nullptr, nullptr);
  std::string result(static_cast<size_t>(length), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text.data(), size, result.data(), length, nullptr, nullptr);
  return result;
}

int failed() {
  const std::error_code code(static_cast<int>(GetLastError()), std::system_category());
  const std::error_condition condition = code.default_error_condition();
  errno = condition.category() == std::generic_category() ? condition.value() : EIO;
  return -1;
}

int open_file(const std::string &path, DWORD access, DWORD disposition) {
  const HANDLE handle = CreateFileW(wide(path).c_str(), access, kShareAll, nullptr, disposition,
                                    FILE_ATTRIBUTE_NORMAL, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return failed();
  return _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_BINARY);
}

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

OVERLAPPED at(uint64_t offset) {
  OVERLAPPED overlapped{};
  overlapped.Offset = static_cast<DWORD>(offset);
  overlapped.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return overlapped;
}

}  // namespace

int open_to_read(const std::string &path) { return open_file(path, GENERIC_READ, OPEN_EXISTING); }
int open_to_write(const std::string &path) { return open_file(path, GENERIC_WRITE, CREATE_ALWAYS); }

int make_temporary(std::string *path) {
  constexpr int kAttempts = 100;
  constexpr size_t kRandomLetters = 6;
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    for (size_t i = path->size() - kRandomLetters; i < path->size(); ++i)
      (*path)[i] = static_cast<char>('a' + random() % 26);
    const int file = open_file(*path, GENERIC_WRITE, CREATE_NEW);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

int close_file(int file) { return _close(file); }

int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset) {
  OVERLAPPED overlapped = at(offset);
  DWORD got = 0;
  const auto asked = static_cast<DWORD>(std::min(bytes, kMostBytesPerCall));
  if (ReadFile(handle_of(file), buffer, asked, &got, &overlapped)) return got;
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : failed();
}

int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset) {
  OVERLAPPED overlapped = at(offset);
  DWORD put = 0;
  const auto asked = static_cast<DWORD>(std::min(bytes, kMostBytesPerCall));
  return WriteFile(handle_of(file), data, asked, &put, &overlapped) ? put : failed();
}

void remove_file(const std::string &path) { DeleteFileW(wide(path).c_str()); }
void remove_folder(const std::string &path) { RemoveDirectoryW(wide(path).c_str()); }

int rename_file(const std::string &from, const std::string &to) {
  const bool done =
      MoveFileExW(wide(from).c_str(), wide(to).c_str(), MOVEFILE_REPLACE_EXISTING) != 0;
  return done ? 0 : failed();
}

std::optional<uint64_t> room_in(const std::string &folder) {
  ULARGE_INTEGER room{};
  if (!GetDiskFreeSpaceExW(wide(folder).c_str(), &room, nullptr, nullptr)) return std::nullopt;
  return room.QuadPart;
}

int process_number() { return _getpid(); }

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

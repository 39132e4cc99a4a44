// Handles are opened for overlapped calls: Windows lets only one call at a time use any other.
#include "tools/program/files.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>
#include <random>
#include <system_error>

#include "tools/program/wide_text_windows.h"

namespace program {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr uint64_t kMostBytesPerCall = uint64_t{1} << 30;

int failed() {
  const std::error_code code(static_cast<int>(GetLastError()), std::system_category());
  const std::error_condition condition = code.default_error_condition();
  errno = condition.category() == std::generic_category() ? condition.value() : EIO;
  return -1;
}

int not_supported() {
  errno = EOPNOTSUPP;
  return -1;
}

int answer(bool done) { return done ? 0 : failed(); }

int open_file(const std::string &path, DWORD access, DWORD disposition, DWORD flags = 0) {
  const HANDLE handle = CreateFileW(wide(path).c_str(), access, kShareAll, nullptr, disposition,
                                    FILE_FLAG_OVERLAPPED | flags, nullptr);
  if (handle == INVALID_HANDLE_VALUE) return failed();
  return _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_BINARY);
}

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

// `call` is ReadFile or WriteFile.
template <typename Call, typename Buffer>
int64_t transfer(Call call, int file, Buffer buffer, uint64_t bytes, uint64_t offset) {
  OVERLAPPED overlapped{};
  overlapped.Offset = static_cast<DWORD>(offset);
  overlapped.OffsetHigh = static_cast<DWORD>(offset >> 32);
  overlapped.hEvent = CreateEventW(nullptr, TRUE, FALSE, nullptr);
  if (overlapped.hEvent == nullptr) return failed();
  const auto asked = static_cast<DWORD>(std::min(bytes, kMostBytesPerCall));
  DWORD done = 0;
  const bool started = call(handle_of(file), buffer, asked, nullptr, &overlapped) ||
                       GetLastError() == ERROR_IO_PENDING;
  const bool good = started && GetOverlappedResult(handle_of(file), &overlapped, &done, TRUE);
  const DWORD code = good ? ERROR_SUCCESS : GetLastError();
  CloseHandle(overlapped.hEvent);
  if (good || code == ERROR_HANDLE_EOF) return done;
  SetLastError(code);
  return failed();
}

}  // namespace

// Backup semantics: folders open too.
int open_to_read(const std::string &path) {
  return open_file(path, GENERIC_READ, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
}

int open_to_read_direct(const std::string &path) {
  return open_file(path, GENERIC_READ, OPEN_EXISTING, FILE_FLAG_NO_BUFFERING);
}

int make_file(const std::string &path) {
  return open_file(path, GENERIC_READ | GENERIC_WRITE, CREATE_NEW);
}

int make_temporary(std::string *path) {
  constexpr int kAttempts = 100;
  constexpr size_t kRandomLetters = 6;
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    for (size_t i = path->size() - kRandomLetters; i < path->size(); ++i)
      (*path)[i] = static_cast<char>('a' + random() % 26);
    const int file = make_file(*path);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

int close_file(int file) { return _close(file); }

std::optional<FileState> state_of(int file) {
  if (GetFileType(handle_of(file)) != FILE_TYPE_DISK) return FileState{};
  BY_HANDLE_FILE_INFORMATION facts{};
  if (!GetFileInformationByHandle(handle_of(file), &facts)) {
    failed();
    return std::nullopt;
  }
  const auto both = [](DWORD high, DWORD low) { return uint64_t{high} << 32 | low; };
  const FILETIME written = facts.ftLastWriteTime;
  return FileState{both(facts.nFileSizeHigh, facts.nFileSizeLow),
                   static_cast<int64_t>(both(written.dwHighDateTime, written.dwLowDateTime)),
                   (facts.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) == 0};
}

int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset) {
  return transfer(ReadFile, file, buffer, bytes, offset);
}

int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset) {
  return transfer(WriteFile, file, data, bytes, offset);
}

int64_t copy_range(int, uint64_t, int, uint64_t, uint64_t) { return not_supported(); }
void will_read_in_order(int) {}  // can only be said when a file is opened

int reserve_room(int file, uint64_t bytes) {
  FILE_ALLOCATION_INFO info{};
  info.AllocationSize.QuadPart = static_cast<LONGLONG>(bytes);
  if (SetFileInformationByHandle(handle_of(file), FileAllocationInfo, &info, sizeof info)) return 0;
  return GetLastError() == ERROR_DISK_FULL ? failed() : not_supported();
}

int sync_file(int file) { return answer(FlushFileBuffers(handle_of(file))); }
void sync_folder(const std::string &) {}  // renaming writes through

void remove_file(const std::string &path) { DeleteFileW(wide(path).c_str()); }

int make_folder(const std::string &path) {
  return answer(CreateDirectoryW(wide(path).c_str(), nullptr));
}

void remove_folder(const std::string &path) { RemoveDirectoryW(wide(path).c_str()); }

int rename_over(const std::string &from, const std::string &to) {
  return answer(MoveFileExW(wide(from).c_str(), wide(to).c_str(),
                            MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH));
}

int rename_new(const std::string &from, const std::string &to) {
  return answer(MoveFileExW(wide(from).c_str(), wide(to).c_str(), MOVEFILE_WRITE_THROUGH));
}

int exchange_names(const std::string &, const std::string &) { return not_supported(); }

std::optional<uint64_t> room_in(const std::string &folder) {
  ULARGE_INTEGER room{};
  if (!GetDiskFreeSpaceExW(wide(folder).c_str(), &room, nullptr, nullptr)) return std::nullopt;
  return room.QuadPart;
}

bool ends_with_separator(std::string_view path) {
  return path.ends_with('/') || path.ends_with('\\');
}

// ---- The page cache ------------------------------------------------------------------------

const bool kCanDropFromCache = false;
void drop_from_cache(int) {}

std::optional<double> cached_part(const std::string &, int, uint64_t) { return std::nullopt; }

void *map_file(int file, uint64_t bytes, bool) {
  const HANDLE mapping = CreateFileMappingW(handle_of(file), nullptr, PAGE_READONLY, 0, 0, nullptr);
  if (mapping == nullptr) {
    failed();
    return nullptr;
  }
  void *memory = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, bytes);
  if (memory == nullptr) failed();
  CloseHandle(mapping);  // the view keeps it
  return memory;
}

void unmap_file(void *memory, uint64_t) { UnmapViewOfFile(memory); }

}  // namespace program

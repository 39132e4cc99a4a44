// The Windows rows of the operating-system table. The only file that makes these calls.
//
// A descriptor is a file handle, which fits 32 bits, opened for overlapped reads. Its lowest bit,
// which Windows leaves to programs, marks an unbuffered one.
#include <windows.h>

#include <process.h>
#include <winioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "runtime/limits.h"
#include "runtime/native_error.h"
#include "runtime/os.h"
#include "runtime/wide_text_windows.h"

// Takes the place of pthread_key_delete, which the C++ runtime of this DLL calls when the process
// ends: winpthreads can wait there for ever for threads that Windows has ended before.
extern "C" int __wrap_pthread_key_delete(unsigned) { return 0; }

namespace sluice {
namespace {

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
constexpr uint32_t kUsualSector = 4096;
constexpr uint32_t kMostBytesPerCall = 1u << 30;

int last_error() { return failed_with(GetLastError()); }

bool is_direct(int descriptor) { return (descriptor & 1) != 0; }

HANDLE handle_of(int descriptor) {
  return reinterpret_cast<HANDLE>(static_cast<intptr_t>(descriptor & ~1));
}

int descriptor_of(HANDLE handle, bool direct) {
  return static_cast<int>(reinterpret_cast<intptr_t>(handle)) | (direct ? 1 : 0);
}

int open_read(const char *path) {
  try {
    // Backup semantics: directories open too, and are told apart by what they are.
    const HANDLE handle =
        CreateFileW(wide(path).c_str(), GENERIC_READ, kShareAll, nullptr, OPEN_EXISTING,
                    FILE_FLAG_OVERLAPPED | FILE_FLAG_BACKUP_SEMANTICS, nullptr);
    return handle == INVALID_HANDLE_VALUE ? last_error() : descriptor_of(handle, false);
  } catch (const std::bad_alloc &) {
    return -ENOMEM;
  }
}

bool same_file(HANDLE one, HANDLE other) {
  BY_HANDLE_FILE_INFORMATION a{}, b{};
  return GetFileInformationByHandle(one, &a) && GetFileInformationByHandle(other, &b) &&
         a.dwVolumeSerialNumber == b.dwVolumeSerialNumber && a.nFileIndexHigh == b.nFileIndexHigh &&
         a.nFileIndexLow == b.nFileIndexLow;
}

// wine opens what the path leads to now: that is looked at, as the file may have been replaced.
int reopen(int descriptor, bool direct) {
  const DWORD flags = FILE_FLAG_OVERLAPPED | (direct ? FILE_FLAG_NO_BUFFERING : 0);
  const HANDLE original = handle_of(descriptor);
  const HANDLE handle = ReOpenFile(original, GENERIC_READ, kShareAll, flags);
  if (handle == INVALID_HANDLE_VALUE) return last_error();
  if (same_file(original, handle)) return descriptor_of(handle, direct);
  CloseHandle(handle);
  return -ENOENT;
}

int reopen_direct(int descriptor) { return reopen(descriptor, true); }

int close_descriptor(int descriptor) {
  return CloseHandle(handle_of(descriptor)) ? 0 : last_error();
}

uint32_t sector_of_volume(HANDLE handle) {
  try {
    std::wstring path(32768, L'\0');
    const DWORD length =
        GetFinalPathNameByHandleW(handle, path.data(), static_cast<DWORD>(path.size()), 0);
    std::wstring root(length + 1, L'\0');
    DWORD per_cluster = 0, sector = 0, free_clusters = 0, clusters = 0;
    if (length == 0 || length >= path.size() ||
        !GetVolumePathNameW(path.c_str(), root.data(), static_cast<DWORD>(root.size())) ||
        !GetDiskFreeSpaceW(root.c_str(), &per_cluster, &sector, &free_clusters, &clusters))
      return kUsualSector;
    return sector;
  } catch (const std::bad_alloc &) {
    return kUsualSector;
  }
}

// Offsets and lengths in logical sectors, buffers in physical ones.
void direct_alignment(HANDLE handle, FileFacts *out) {
  FILE_STORAGE_INFO storage{};
  if (GetFileInformationByHandleEx(handle, FileStorageInfo, &storage, sizeof storage)) {
    out->direct_offset_alignment = storage.LogicalBytesPerSector;
    out->direct_memory_alignment =
        std::max(storage.LogicalBytesPerSector,
                 storage.FileSystemEffectivePhysicalBytesPerSectorForAtomicity);
  } else {
    out->direct_offset_alignment = out->direct_memory_alignment = sector_of_volume(handle);
  }
  out->direct_known = out->direct_offset_alignment != 0;
}

int file_facts(int descriptor, FileFacts *out) {
  const HANDLE handle = handle_of(descriptor);
  if (GetFileType(handle) != FILE_TYPE_DISK) return 0;
  FILE_STANDARD_INFO facts{};
  if (!GetFileInformationByHandleEx(handle, FileStandardInfo, &facts, sizeof facts))
    return last_error();
  out->size_bytes = static_cast<uint64_t>(facts.EndOfFile.QuadPart);
  out->directory = facts.Directory != 0;
  out->regular = !out->directory;
  if (out->regular) direct_alignment(handle, out);
  return 0;
}

// Windows refuses such unbuffered reads; emulations of it may not, and would hide a mistake.
bool fits_sectors(int descriptor, const void *buffer, uint32_t bytes, uint64_t offset) {
  return !is_direct(descriptor) ||
         (reinterpret_cast<uintptr_t>(buffer) % kDirectAlignment == 0 &&
          bytes % kDirectAlignment == 0 && offset % kDirectAlignment == 0);
}

void set_offset(OVERLAPPED *overlapped, uint64_t offset) {
  overlapped->Offset = static_cast<DWORD>(offset);
  overlapped->OffsetHigh = static_cast<DWORD>(offset >> 32);
}

void WINAPI close_event(void *event) {
  if (event) CloseHandle(event);
}

// Each thread waits on an event of its own: handles serve several threads at once. Not by a
// variable with a destructor: winpthreads deletes the key behind those when the process ends, and
// can wait for ever for threads that are gone. The library stays loaded for the callback.
HANDLE own_event() {
  static const DWORD slot = [] {
    HMODULE own = nullptr;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                       reinterpret_cast<LPCWSTR>(&close_event), &own);
    return FlsAlloc(close_event);
  }();
  HANDLE event = FlsGetValue(slot);
  if (event) return event;
  event = CreateEventW(nullptr, TRUE, FALSE, nullptr);
  FlsSetValue(slot, event);
  return event;
}

int64_t read_at(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  const HANDLE event = own_event();
  if (!event) return -ENOMEM;
  const auto asked = static_cast<uint32_t>(std::min<size_t>(bytes, kMostBytesPerCall));
  if (asked == 0) return 0;
  if (!fits_sectors(descriptor, buffer, asked, offset)) return -EINVAL;
  OVERLAPPED overlapped{};
  set_offset(&overlapped, offset);
  overlapped.hEvent = event;
  DWORD got = 0;
  if (ReadFile(handle_of(descriptor), buffer, asked, nullptr, &overlapped) ||
      GetLastError() == ERROR_IO_PENDING) {
    if (GetOverlappedResult(handle_of(descriptor), &overlapped, &got, TRUE)) return got;
  }
  return GetLastError() == ERROR_HANDLE_EOF ? 0 : last_error();
}

// The system has no such flag and no such advice; unbuffered handles serve instead.
int64_t read_uncached(int, void *, size_t, uint64_t) { return -EOPNOTSUPP; }
int drop_cached(int, uint64_t, uint64_t) { return -EOPNOTSUPP; }

int64_t cached_bytes(int, uint64_t, uint64_t) { return -ENOSYS; }

int map_memory(size_t bytes, void **out) {
  void *memory = VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (!memory) return last_error();
  *out = memory;
  return 0;
}

int unmap_memory(void *memory, size_t) {
  return VirtualFree(memory, 0, MEM_RELEASE) ? 0 : last_error();
}

// Nothing forks here, and large pages need a privilege that programs don't have.
int advise(void *, size_t, Advice advice) { return advice == Advice::kHugePages ? -EOPNOTSUPP : 0; }

int port_open(intptr_t *out_port) {
  const HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, nullptr, 0, 1);
  if (!port) return last_error();
  *out_port = reinterpret_cast<intptr_t>(port);
  return 0;
}

int port_add_file(intptr_t port, int descriptor) {
  const int own = reopen(descriptor, is_direct(descriptor));
  if (own < 0) return own;
  if (CreateIoCompletionPort(handle_of(own), reinterpret_cast<HANDLE>(port), 0, 0)) return own;
  const int result = last_error();
  close_descriptor(own);
  return result;
}

int port_read(int descriptor, void *buffer, uint32_t bytes, uint64_t offset, PortRead *read) {
  static_assert(sizeof(OVERLAPPED) <= sizeof read->system);
  if (!fits_sectors(descriptor, buffer, bytes, offset)) return -EINVAL;
  auto *overlapped = new (read->system) OVERLAPPED{};
  set_offset(overlapped, offset);
  if (ReadFile(handle_of(descriptor), buffer, bytes, nullptr, overlapped)) return 0;
  const DWORD code = GetLastError();
  if (code == ERROR_IO_PENDING) return 0;
  return code == ERROR_HANDLE_EOF ? -ENODATA : failed_with(code);
}

int port_wait(intptr_t port, uint32_t patience_ms, PortRead **out_read, int *out_result) {
  DWORD got = 0;
  ULONG_PTR key = 0;
  OVERLAPPED *overlapped = nullptr;
  const bool good = GetQueuedCompletionStatus(reinterpret_cast<HANDLE>(port), &got, &key,
                                              &overlapped, patience_ms);
  if (!overlapped && GetLastError() != WAIT_TIMEOUT) return last_error();
  *out_read = reinterpret_cast<PortRead *>(overlapped);
  if (!overlapped) return 0;
  const DWORD code = good ? ERROR_SUCCESS : GetLastError();
  *out_result =
      code == ERROR_SUCCESS || code == ERROR_HANDLE_EOF ? static_cast<int>(got) : failed_with(code);
  return 0;
}

void port_close(intptr_t port) { CloseHandle(reinterpret_cast<HANDLE>(port)); }

struct ThreadStart {
  void (*body)(void *);
  void *argument;
};

unsigned __stdcall thread_main(void *start) {
  const ThreadStart copy = *static_cast<ThreadStart *>(start);
  delete static_cast<ThreadStart *>(start);
  copy.body(copy.argument);
  return 0;
}

int thread_start(void (*body)(void *), void *argument, uint64_t *out_thread) {
  auto *start = new (std::nothrow) ThreadStart{body, argument};
  if (!start) return -ENOMEM;
  const uintptr_t thread = _beginthreadex(nullptr, 0, thread_main, start, 0, nullptr);
  if (thread == 0) {
    delete start;
    return errno != 0 ? -errno : -EAGAIN;
  }
  *out_thread = thread;
  return 0;
}

void thread_detach(uint64_t thread) { CloseHandle(reinterpret_cast<HANDLE>(thread)); }

void thread_join(uint64_t thread) {
  WaitForSingleObject(reinterpret_cast<HANDLE>(thread), INFINITE);
  thread_detach(thread);
}

int completion(int result) { return result; }

std::string module_path(HMODULE module) {
  std::wstring path(32768, L'\0');
  path.resize(GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
  std::string text = utf8(path);
  std::replace(text.begin(), text.end(), '\\', '/');
  return text;
}

}  // namespace

const OsTable &os_native() noexcept {
  static constexpr OsTable table{
      open_read,     reopen_direct, close_descriptor, file_facts,   read_at,      read_uncached,
      drop_cached,   cached_bytes,  map_memory,       unmap_memory, advise,
      nullptr,  // rings
      nullptr,       nullptr,       nullptr,          nullptr,      nullptr,      port_open,
      port_add_file, port_read,     port_wait,        port_close,   thread_start, thread_detach,
      thread_join,   completion};
  return table;
}

size_t page_bytes() noexcept {
  static const size_t bytes = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<size_t>(info.dwPageSize);
  }();
  return bytes;
}

void watch_forks(void (*)()) {}

std::string own_folder() {
  HMODULE module = nullptr;
  constexpr DWORD kFlags =
      GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT;
  if (!GetModuleHandleExW(kFlags, reinterpret_cast<LPCWSTR>(&own_folder), &module)) return {};
  const std::string path = module_path(module);
  return path.substr(0, path.rfind('/'));
}

std::optional<std::string> environment(const char *name) {
  const std::wstring wide_name = wide(name);
  std::wstring value;
  DWORD length = GetEnvironmentVariableW(wide_name.c_str(), nullptr, 0);
  while (length > value.size()) {  // with its end; another thread may be changing it
    value.resize(length);
    length = GetEnvironmentVariableW(wide_name.c_str(), value.data(), length);
  }
  if (value.empty()) return std::nullopt;
  value.resize(length);
  return utf8(value);
}

const char *const kDriverLibrary = "nvcuda.dll";
const char *const kEmulatedDriverLibrary = "sluice_emulated_driver.dll";

// A bare name is never looked for in the current folder or along PATH.
void *library_open(const char *path, std::string *out_message) {
  std::wstring name = wide(path);
  std::replace(name.begin(), name.end(), L'/', L'\\');
  const bool bare = name.find(L'\\') == std::wstring::npos;
  const HMODULE module =
      LoadLibraryExW(name.c_str(), nullptr,
                     bare ? LOAD_LIBRARY_SEARCH_DEFAULT_DIRS : LOAD_WITH_ALTERED_SEARCH_PATH);
  if (!module) *out_message = std::string(path) + ": " + error_text(GetLastError());
  return module;
}

void *library_symbol(void *library, const char *name) noexcept {
  return reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
}

std::string library_path(void *library, const char *) {
  return module_path(static_cast<HMODULE>(library));
}

}  // namespace sluice

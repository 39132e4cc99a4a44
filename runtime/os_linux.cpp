// The Linux rows of the operating-system table. The only file that makes these calls.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "runtime/limits.h"
#include "runtime/os.h"

#ifndef STATX_DIOALIGN
#define STATX_DIOALIGN 0x2000U
#endif

namespace sluice {
namespace {

int negated(int result) { return result < 0 ? -errno : 0; }

int open_read(const char *path) {
  // O_NONBLOCK: opening a FIFO must not hang; it has no effect on regular files.
  const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  return descriptor < 0 ? -errno : descriptor;
}

// Descriptors are given from the lowest on: a high one says that few are left. Those belong to what
// can't do without one, in the program as well.
bool leaves_spare_descriptors(int descriptor) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  return static_cast<rlim_t>(descriptor) < limit.rlim_cur - limit.rlim_cur / 8;
}

int reopen_direct(int descriptor) {
  char link[32];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const int direct = ::open(link, O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct < 0) return -errno;
  if (!leaves_spare_descriptors(direct)) {
    ::close(direct);
    return -EMFILE;
  }
  return direct;
}

int close_descriptor(int descriptor) { return negated(::close(descriptor)); }

// The kernel's struct statx has grown since Debian 12's headers; the alignment words are at a
// fixed place behind stx_mnt_id (Linux 6.1, include/uapi/linux/stat.h).
struct StatxBuffer {
  struct statx known;
  unsigned char room[256];
};
constexpr size_t kStatxDirectOffset = 0x98;

int file_facts(int descriptor, FileFacts *out) {
  StatxBuffer buffer;
  std::memset(&buffer, 0, sizeof buffer);
  const unsigned mask = STATX_TYPE | STATX_SIZE | STATX_DIOALIGN;
  if (::statx(descriptor, "", AT_EMPTY_PATH, mask, &buffer.known) != 0) return -errno;
  out->size_bytes = buffer.known.stx_size;
  out->regular = S_ISREG(buffer.known.stx_mode);
  out->disk = uint64_t{buffer.known.stx_dev_major} << 32 | buffer.known.stx_dev_minor;
  out->directory = S_ISDIR(buffer.known.stx_mode);
  out->direct_known = (buffer.known.stx_mask & STATX_DIOALIGN) != 0;
  if (out->direct_known) {
    uint32_t alignment[2];
    std::memcpy(alignment, reinterpret_cast<const unsigned char *>(&buffer) + kStatxDirectOffset,
                sizeof alignment);
    out->direct_memory_alignment = alignment[0];
    out->direct_offset_alignment = alignment[1];
  }
  return 0;
}

int64_t read_at(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  const ssize_t got = ::pread(descriptor, buffer, bytes, static_cast<off_t>(offset));
  return got < 0 ? -errno : got;
}

int64_t read_uncached(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  const iovec part{buffer, bytes};
  const ssize_t got = ::preadv2(descriptor, &part, 1, static_cast<off_t>(offset), kUncachedFlag);
  return got < 0 ? -errno : got;
}

int drop_cached(int descriptor, uint64_t offset, uint64_t bytes) {
  return -::posix_fadvise(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                          POSIX_FADV_DONTNEED);
}

struct CachestatRange {
  uint64_t offset, bytes;
};
struct CachestatResult {
  uint64_t cached, dirty, writeback, evicted, recently_evicted;
};
constexpr long kCachestatCall = 451;  // Linux 6.5

int64_t cached_by_cachestat(int descriptor, uint64_t offset, uint64_t bytes) {
  CachestatRange range{offset, bytes};
  CachestatResult result{};
  if (::syscall(kCachestatCall, descriptor, &range, &result, 0) != 0) return -errno;
  return static_cast<int64_t>(result.cached * page_bytes());
}

// mincore claims everything resident to those who may neither own nor write the file (Linux
// 134fca9063ad), so it is asked only where cachestat can't be and the answer would be honest.
int64_t cached_by_mincore(int descriptor, uint64_t offset, uint64_t bytes) {
  struct stat facts;
  if (::fstat(descriptor, &facts) != 0) return -errno;
  if (::geteuid() != 0 && facts.st_uid != ::geteuid()) return -EPERM;
  const uint64_t page = page_bytes();
  const uint64_t start = offset / page * page;
  const size_t length = static_cast<size_t>(offset + bytes - start);
  void *view =
      ::mmap(nullptr, length, PROT_NONE, MAP_SHARED, descriptor, static_cast<off_t>(start));
  if (view == MAP_FAILED) return -errno;
  const size_t pages = (length + page - 1) / page;
  std::unique_ptr<unsigned char[]> flags(new (std::nothrow) unsigned char[pages]);
  int64_t cached = -ENOMEM;
  if (flags && ::mincore(view, length, flags.get()) == 0) {
    cached = 0;
    for (size_t i = 0; i < pages; ++i) cached += (flags[i] & 1) ? static_cast<int64_t>(page) : 0;
  }
  ::munmap(view, length);
  return cached;
}

int64_t cached_bytes(int descriptor, uint64_t offset, uint64_t bytes) {
  const int64_t cached = cached_by_cachestat(descriptor, offset, bytes);
  // overlayfs answers 0 from cachestat whatever is cached: ask the other way too.
  if (cached > 0) return cached;
  const int64_t other = cached_by_mincore(descriptor, offset, bytes);
  return other >= 0 ? other : cached;
}

int map_memory(size_t bytes, void **out) {
  void *memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return -errno;
  *out = memory;
  return 0;
}

int unmap_memory(void *memory, size_t bytes) { return negated(::munmap(memory, bytes)); }

int advise(void *memory, size_t bytes, Advice advice) {
  int value = MADV_HUGEPAGE;
  switch (advice) {
    case Advice::kHugePages:
      value = MADV_HUGEPAGE;
      break;
    case Advice::kNoHugePages:
      value = MADV_NOHUGEPAGE;
      break;
    case Advice::kDontFork:
      value = MADV_DONTFORK;
      break;
    case Advice::kDontDump:
      value = MADV_DONTDUMP;
      break;
  }
  return negated(::madvise(memory, bytes, value));
}

int ring_init(unsigned entries, io_uring *ring, io_uring_params *params) {
  return io_uring_queue_init_params(entries, ring, params);
}
int ring_register_buffers(io_uring *ring, const iovec *buffers, unsigned count) {
  return io_uring_register_buffers(ring, buffers, count);
}
int ring_register_files(io_uring *ring, const int *descriptors, unsigned count) {
  return io_uring_register_files(ring, descriptors, count);
}
int ring_update_file(io_uring *ring, unsigned index, int descriptor) {
  const int updated = io_uring_register_files_update(ring, index, &descriptor, 1);
  return updated < 0 ? updated : 0;
}
int ring_submit(io_uring *ring, unsigned wait_for, uint32_t patience_ms) {
  const bool bounded = patience_ms != 0 && (ring->features & IORING_FEAT_EXT_ARG) != 0;
  if (wait_for == 0 || !bounded) return io_uring_submit_and_wait(ring, wait_for);
  __kernel_timespec patience{patience_ms / 1000, patience_ms % 1000 * 1000000ll};
  io_uring_cqe *first = nullptr;
  const unsigned queued = io_uring_sq_ready(ring);
  const int result = io_uring_submit_and_wait_timeout(ring, &first, wait_for, &patience, nullptr);
  if (result < 0 && result != -ETIME) return result;
  return static_cast<int>(queued - io_uring_sq_ready(ring));
}
void ring_exit(io_uring *ring) { io_uring_queue_exit(ring); }

struct ThreadStart {
  void (*body)(void *);
  void *argument;
};

void *thread_main(void *start) {
  const ThreadStart copy = *static_cast<ThreadStart *>(start);
  delete static_cast<ThreadStart *>(start);
  copy.body(copy.argument);
  return nullptr;
}

int thread_start(void (*body)(void *), void *argument, uint64_t *out_thread) {
  auto *start = new (std::nothrow) ThreadStart{body, argument};
  if (!start) return -ENOMEM;
  // Signals belong to the embedding program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int result = pthread_create(&thread, nullptr, thread_main, start);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (result != 0) {
    delete start;
    return -result;
  }
  static_assert(sizeof thread <= sizeof *out_thread);
  *out_thread = static_cast<uint64_t>(thread);
  return 0;
}

void thread_detach(uint64_t thread) { pthread_detach(static_cast<pthread_t>(thread)); }
void thread_join(uint64_t thread) { pthread_join(static_cast<pthread_t>(thread), nullptr); }

int completion(int result) { return result; }

}  // namespace

const OsTable &os_native() noexcept {
  static constexpr OsTable table{open_read,
                                 reopen_direct,
                                 close_descriptor,
                                 file_facts,
                                 read_at,
                                 read_uncached,
                                 drop_cached,
                                 cached_bytes,
                                 map_memory,
                                 unmap_memory,
                                 advise,
                                 ring_init,
                                 ring_register_buffers,
                                 ring_register_files,
                                 ring_update_file,
                                 ring_submit,
                                 ring_exit,
                                 nullptr,  // ports
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 nullptr,
                                 thread_start,
                                 thread_detach,
                                 thread_join,
                                 completion};
  return table;
}

size_t page_bytes() noexcept {
  static const size_t bytes = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}

void watch_forks(void (*in_child)()) { pthread_atfork(nullptr, nullptr, in_child); }

std::string own_folder() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void *>(&own_folder), &info) == 0 || !info.dli_fname)
    return {};
  // A program's own code is named by argv[0], which says nothing of where it lies.
  const bool in_program = std::strcmp(info.dli_fname, program_invocation_name) == 0;
  char *resolved = ::realpath(in_program ? "/proc/self/exe" : info.dli_fname, nullptr);
  if (!resolved) return {};
  const std::string path = resolved;
  std::free(resolved);
  return path.substr(0, path.rfind('/'));
}

std::optional<std::string> environment(const char *name) {
  const char *value = ::secure_getenv(name);
  return value ? std::optional<std::string>(value) : std::nullopt;
}

const char *const kDriverLibrary = "libcuda.so.1";
const char *const kEmulatedDriverLibrary = "libsluice_emulated_driver.so";

void *library_open(const char *path, std::string *out_message) {
  void *library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *message = ::dlerror();
    *out_message = message ? message : "unknown";
  }
  return library;
}

void *library_symbol(void *library, const char *name) noexcept { return ::dlsym(library, name); }

std::string library_path(void *library, const char *symbol) {
  Dl_info info{};
  void *address = library_symbol(library, symbol);
  if (!address || ::dladdr(address, &info) == 0 || !info.dli_fname) return {};
  return info.dli_fname;
}

}  // namespace sluice

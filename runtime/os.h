// Every operating-system call that sluice makes goes through this one table, so that tests can
// make the k-th one fail. Statically linked liburing makes raw system calls, which preloading
// can't see; its entry points are rows here, and completions pass through one filter.
//
// Threads: the table is read from any thread; os_replace is for tests, while nothing runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/status.h"

struct io_uring;
struct io_uring_params;
struct iovec;

namespace sluice {

struct FileFacts {
  uint64_t size_bytes = 0;
  uint64_t disk = 0;  // the same for files of one file system
  bool regular = false;
  bool directory = false;
  uint32_t direct_memory_alignment = 0;  // statx DIOALIGN; 0 with direct_known: refused
  uint32_t direct_offset_alignment = 0;
  bool direct_known = false;
};

inline constexpr int kUncachedFlag = 0x80;  // RWF_DONTCACHE

// One read on its way through a completion port; stays where it is until its completion was seen.
struct PortRead {
  alignas(8) unsigned char system[32] = {};
  void *owner = nullptr;
};

enum class Advice { kHugePages, kNoHugePages, kDontFork, kDontDump };

// All functions return 0 or a count, or a negated errno, behind which the system may have a code of
// its own (runtime/native_error.h); none throws. Rows of what this system doesn't have are null:
// rings are Linux's, ports are Windows'.
struct OsTable {
  int (*open_read)(const char *path);
  // Another descriptor of the same file, for direct reads; never of what the path leads to now.
  // -EMFILE where it would take one of the last eighth of the process's descriptors.
  int (*reopen_direct)(int descriptor);
  int (*close)(int descriptor);
  int (*file_facts)(int descriptor, FileFacts *out);
  int64_t (*read_at)(int descriptor, void *buffer, size_t bytes, uint64_t offset);
  // The same, but what had to be fetched doesn't stay in the page cache; -EOPNOTSUPP where the
  // kernel or the file system can't do that (Linux 6.14; io_uring takes kUncachedFlag).
  int64_t (*read_uncached)(int descriptor, void *buffer, size_t bytes, uint64_t offset);
  int (*drop_cached)(int descriptor, uint64_t offset, uint64_t bytes);  // clean pages of the range
  // Bytes of [offset, offset + bytes) in the page cache, or -errno where it can't be told.
  int64_t (*cached_bytes)(int descriptor, uint64_t offset, uint64_t bytes);
  int (*map_memory)(size_t bytes, void **out);  // anonymous, private, not reserved
  int (*unmap_memory)(void *memory, size_t bytes);
  int (*advise)(void *memory, size_t bytes, Advice advice);
  int (*ring_init)(unsigned entries, io_uring *ring, io_uring_params *params);
  int (*ring_register_buffers)(io_uring *ring, const iovec *buffers, unsigned count);
  int (*ring_register_files)(io_uring *ring, const int *descriptors, unsigned count);
  int (*ring_update_file)(io_uring *ring, unsigned index, int descriptor);
  // Hands over what was queued, and waits for `wait_for` completions, but not longer than
  // `patience_ms` where the kernel can bound it (0: as long as it takes). The count handed over.
  int (*ring_submit)(io_uring *ring, unsigned wait_for, uint32_t patience_ms);
  void (*ring_exit)(io_uring *ring);
  int (*port_open)(intptr_t *out_port);
  // Another descriptor of the same file, direct like this one, whose reads complete at the port.
  int (*port_add_file)(intptr_t port, int descriptor);
  // 0: its completion will arrive at the port. -ENODATA: nothing arrives, the file has ended.
  int (*port_read)(int descriptor, void *buffer, uint32_t bytes, uint64_t offset, PortRead *read);
  // 0 with a completion, or with none (nullptr) once `patience_ms` have passed.
  int (*port_wait)(intptr_t port, uint32_t patience_ms, PortRead **out_read, int *out_result);
  void (*port_close)(intptr_t port);
  int (*thread_start)(void (*body)(void *), void *argument, uint64_t *out_thread);
  void (*thread_detach)(uint64_t thread);
  void (*thread_join)(uint64_t thread);  // cannot fail on a thread of thread_start
  // Sees each completion's result before the reader does, and may change it.
  int (*completion)(int result);
};

const OsTable &os() noexcept;
const OsTable &os_native() noexcept;
void os_replace(const OsTable *table) noexcept;  // nullptr: the native one

// What the system says of itself; all paths are read under `root` ("" or a fixture's folder).
struct SystemFacts {
  std::string kernel;
  std::string huge_pages;
  uint32_t processors = 1;
  uint64_t ram_bytes = 0;
  uint64_t ram_available_bytes = 0;
  uint64_t container_limit_bytes = UINT64_MAX;
  uint64_t container_used_bytes = 0;
  uint64_t memlock_limit_bytes = UINT64_MAX;
};
SystemFacts system_facts(const std::string &root = "");

size_t page_bytes() noexcept;
// Calls `in_child` in each child of a fork from now on; where there is no fork, never.
void watch_forks(void (*in_child)());
// The folder of the library or program that holds this code; "" when it can't be told.
std::string own_folder();
std::optional<std::string> environment(const char *name);  // in UTF-8

// File names of NVIDIA's driver and of the emulated one.
extern const char *const kDriverLibrary;
extern const char *const kEmulatedDriverLibrary;

// Shared libraries: a handle or nullptr with a message.
void *library_open(const char *path, std::string *out_message);
void *library_symbol(void *library, const char *name) noexcept;
std::string library_path(void *library, const char *symbol);

}  // namespace sluice

#include "pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

// There when the process runs under the leak checker, which doesn't look into mapped memory by
// itself.
extern "C" __attribute__((weak)) void __lsan_register_root_region(const void *, size_t);

namespace emulated {

namespace {

constexpr int kReservation = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

void *at(uint64_t address) { return reinterpret_cast<void *>(address); }

int protection_of(Shown how) {
  if (how == Shown::nothing) return PROT_NONE;
  return how == Shown::readable ? PROT_READ : PROT_READ | PROT_WRITE;
}

// Asked of a page of our own, because a bad range answers with the same error.
bool kernel_populates() {
  static const bool does = [] {
    alignas(kPageBytes) static char page[kPageBytes];
    return madvise(page, kPageBytes, MADV_POPULATE_READ) == 0;
  }();
  return does;
}

}  // namespace

const bool kStoresCanBeShown = true;

uint64_t reserve_addresses(uint64_t hint, uint64_t bytes, uint64_t alignment) {
  if (hint && hint % alignment == 0) {
    void *taken = mmap(at(hint), bytes, PROT_NONE, kReservation | MAP_FIXED_NOREPLACE, -1, 0);
    if (taken == at(hint)) return hint;
    if (taken != MAP_FAILED) munmap(taken, bytes);
  }
  void *raw = mmap(nullptr, bytes + alignment, PROT_NONE, kReservation, -1, 0);
  if (raw == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<uint64_t>(raw);
  const uint64_t address = (start + alignment - 1) / alignment * alignment;
  if (address > start) munmap(raw, address - start);
  const uint64_t end = start + bytes + alignment;
  if (end > address + bytes) munmap(at(address + bytes), end - address - bytes);
  return address;
}

void free_addresses(uint64_t address, uint64_t bytes) { munmap(at(address), bytes); }

void *allocate_pages(uint64_t bytes) {
  void *pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return pages == MAP_FAILED ? nullptr : pages;
}

void free_pages(void *pages, uint64_t bytes) { munmap(pages, bytes); }

void *reserve_room(uint64_t bytes) {
  void *room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kReservation, -1, 0);
  return room == MAP_FAILED ? nullptr : room;
}

bool use_room(void *, uint64_t) { return true; }

bool populate_pages(uint64_t begin, uint64_t end, bool read_only) {
  const int advice = read_only ? MADV_POPULATE_READ : MADV_POPULATE_WRITE;
  // A kernel without these advices (before 5.14): pages come when they are touched.
  if (!kernel_populates()) return true;
  while (madvise(at(begin), end - begin, advice) != 0)
    if (errno != EINTR && errno != EAGAIN) return false;
  return true;
}

void prefer_large_pages(void *pages, uint64_t bytes) { madvise(pages, bytes, MADV_HUGEPAGE); }

bool make_store(Store &store, const char *name, uint64_t bytes) {
  store.file = memfd_create(name, MFD_CLOEXEC);
  void *base = MAP_FAILED;
  if (store.file >= 0 && ftruncate(store.file, static_cast<off_t>(bytes)) == 0)
    base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, store.file, 0);
  if (base == MAP_FAILED) {
    if (store.file >= 0) close(store.file);
    store.file = -1;
    return false;
  }
  madvise(base, bytes, MADV_DONTDUMP);
  store.base = static_cast<char *>(base);
  store.bytes = bytes;
  return true;
}

void drop_store(Store &store) {
  munmap(store.base, store.bytes);
  close(store.file);
  store = {};
}

bool use_store(Store &, uint64_t, uint64_t) { return true; }

void clear_store(Store &store, uint64_t begin, uint64_t end) {
  fallocate(store.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
            static_cast<off_t>(end - begin));
}

uint64_t show_whole_store(const Store &store, Shown how) {
  void *window =
      mmap(nullptr, store.bytes, protection_of(how), MAP_SHARED | MAP_NORESERVE, store.file, 0);
  return window == MAP_FAILED ? 0 : reinterpret_cast<uint64_t>(window);
}

void show_store(const Store &store, uint64_t offset, uint64_t address, uint64_t bytes, Shown how) {
  mmap(at(address), bytes, protection_of(how), MAP_SHARED | MAP_FIXED, store.file,
       static_cast<off_t>(offset));
}

void hide_addresses(uint64_t address, uint64_t bytes) {
  mmap(at(address), bytes, PROT_NONE, kReservation | MAP_FIXED, -1, 0);
}

void free_window(uint64_t address, uint64_t bytes) { munmap(at(address), bytes); }

void register_leak_roots(const void *pages, size_t bytes) {
  if (__lsan_register_root_region) __lsan_register_root_region(pages, bytes);
}

}  // namespace emulated

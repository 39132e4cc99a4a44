// Memory of the system: address ranges that nothing may touch, pages, and the stores in which the
// bytes of device memory lie. Threads: any, on different ranges.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

inline constexpr uint64_t kPageBytes = 4096;

// An address range without access. 0: none. The hint is taken when the range there is free.
uint64_t reserve_addresses(uint64_t hint, uint64_t bytes, uint64_t alignment);
void free_addresses(uint64_t address, uint64_t bytes);

// Zeroed pages; nullptr: none.
void *allocate_pages(uint64_t bytes);
void free_pages(void *pages, uint64_t bytes);

// Room that is never given back. Its pages may be touched once they have been asked for.
void *reserve_room(uint64_t bytes);
bool use_room(void *pages, uint64_t bytes);

// Makes the pages of a range present, as pinning does. False: there is none, or it can't be
// written.
bool populate_pages(uint64_t begin, uint64_t end, bool read_only);
void prefer_large_pages(void *pages, uint64_t bytes);

// Bytes at an address of the emulator's own, always readable and writable where they are in use.
struct Store {
  int file = -1;
  char *base = nullptr;
  uint64_t bytes = 0;
};

bool make_store(Store &store, const char *name, uint64_t bytes);
void drop_store(Store &store);
bool use_store(Store &store, uint64_t offset, uint64_t bytes);
// Whole pages that are out of use; they read as zeros when they are used again.
void clear_store(Store &store, uint64_t begin, uint64_t end);

// Where the system can show a store's bytes at a second address.
extern const bool kStoresCanBeShown;
enum class Shown { nothing, readable, writable };
// All of the store, at an address of the system's choice; 0: none.
uint64_t show_whole_store(const Store &store, Shown how);
void show_store(const Store &store, uint64_t offset, uint64_t address, uint64_t bytes, Shown how);
void hide_addresses(uint64_t address, uint64_t bytes);
void free_window(uint64_t address, uint64_t bytes);

// Tells the leak checker, where one runs, to look for pointers there.
void register_leak_roots(const void *pages, size_t bytes);

}  // namespace emulated

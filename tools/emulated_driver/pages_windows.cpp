// Nothing is shown at a second address: wine has no placeholder reservations, in which alone
// Windows maps memory where it is wanted. Device addresses stay without access.
#include "pages.h"

#include <windows.h>

namespace emulated {

namespace {

void *at(uint64_t address) { return reinterpret_cast<void *>(address); }

void *reserve(void *where, uint64_t bytes) {
  return VirtualAlloc(where, bytes, MEM_RESERVE, PAGE_NOACCESS);
}

bool commit(void *pages, uint64_t bytes) {
  return VirtualAlloc(pages, bytes, MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

}  // namespace

const bool kStoresCanBeShown = false;

uint64_t reserve_addresses(uint64_t hint, uint64_t bytes, uint64_t alignment) {
  if (hint && hint % alignment == 0 && reserve(at(hint), bytes)) return hint;
  // A part of a reservation can't be freed: the place of a larger one is taken anew, unless
  // another thread was there before.
  constexpr int kAttempts = 16;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    void *raw = reserve(nullptr, bytes + alignment);
    if (!raw) return 0;
    const auto start = reinterpret_cast<uint64_t>(raw);
    const uint64_t address = (start + alignment - 1) / alignment * alignment;
    VirtualFree(raw, 0, MEM_RELEASE);
    if (reserve(at(address), bytes)) return address;
  }
  return 0;
}

void free_addresses(uint64_t address, uint64_t) { VirtualFree(at(address), 0, MEM_RELEASE); }

void *allocate_pages(uint64_t bytes) {
  return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void free_pages(void *pages, uint64_t) { VirtualFree(pages, 0, MEM_RELEASE); }

void *reserve_room(uint64_t bytes) { return reserve(nullptr, bytes); }
bool use_room(void *pages, uint64_t bytes) { return commit(pages, bytes); }

bool populate_pages(uint64_t begin, uint64_t end, bool read_only) {
  constexpr DWORD kWritable =
      PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
  for (uint64_t address = begin; address < end;) {
    MEMORY_BASIC_INFORMATION region{};
    if (!VirtualQuery(at(address), &region, sizeof region) || region.State != MEM_COMMIT)
      return false;
    if ((region.Protect & (PAGE_NOACCESS | PAGE_GUARD)) != 0) return false;
    if (!read_only && (region.Protect & kWritable) == 0) return false;
    address = reinterpret_cast<uint64_t>(region.BaseAddress) + region.RegionSize;
  }
  return true;
}

void prefer_large_pages(void *, uint64_t) {}

bool make_store(Store &store, const char *, uint64_t bytes) {
  store.base = static_cast<char *>(reserve(nullptr, bytes));
  store.bytes = store.base ? bytes : 0;
  return store.base != nullptr;
}

void drop_store(Store &store) {
  VirtualFree(store.base, 0, MEM_RELEASE);
  store = {};
}

bool use_store(Store &store, uint64_t offset, uint64_t bytes) {
  return commit(store.base + offset, bytes);
}

void clear_store(Store &store, uint64_t begin, uint64_t end) {
  VirtualFree(store.base + begin, end - begin, MEM_DECOMMIT);
}

uint64_t show_whole_store(const Store &store, Shown) {
  return reinterpret_cast<uint64_t>(reserve(nullptr, store.bytes));
}

void show_store(const Store &, uint64_t, uint64_t, uint64_t, Shown) {}
void hide_addresses(uint64_t, uint64_t) {}
void free_window(uint64_t address, uint64_t bytes) { free_addresses(address, bytes); }
void register_leak_roots(const void *, size_t) {}

}  // namespace emulated

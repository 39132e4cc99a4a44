// Finds names: the entries sorted by (hash, name), which also puts equal names side by side. Unlike
// a hash table it has no bad case that a file could aim at.
//
// Threads: immutable once built. Invariant: every entry's name outlives the table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class NameTable {
 public:
  // `name_of(i)` is the name of entry i, 0 <= i < count.
  template <typename NameOf>
  void build(uint64_t count, const NameOf &name_of) {
    entries_.clear();
    entries_.reserve(count);
    for (uint64_t i = 0; i < count; ++i) entries_.push_back({hash_of(name_of(i)), i});
    std::sort(entries_.begin(), entries_.end(), [&](const Entry &a, const Entry &b) {
      if (a.hash != b.hash) return a.hash < b.hash;
      const int order = name_of(a.index).compare(name_of(b.index));
      return order != 0 ? order < 0 : a.index < b.index;
    });
  }

  template <typename NameOf>
  std::optional<uint64_t> find(std::string_view name, const NameOf &name_of) const {
    const uint64_t hash = hash_of(name);
    const auto at =
        std::lower_bound(entries_.begin(), entries_.end(), hash, [&](const Entry &entry, uint64_t) {
          return entry.hash != hash ? entry.hash < hash : name_of(entry.index) < name;
        });
    if (at == entries_.end() || at->hash != hash || name_of(at->index) != name) return {};
    return at->index;
  }

  // Two entries with the same name (the earlier one first), the pair whose second is the earliest.
  template <typename NameOf>
  std::optional<std::pair<uint64_t, uint64_t>> duplicate(const NameOf &name_of) const {
    std::optional<std::pair<uint64_t, uint64_t>> found;
    for (size_t i = 1; i < entries_.size(); ++i) {
      const Entry &a = entries_[i - 1], &b = entries_[i];
      if (a.hash != b.hash || name_of(a.index) != name_of(b.index)) continue;
      if (!found || b.index < found->second) found = {a.index, b.index};
    }
    return found;
  }

 private:
  struct Entry {
    uint64_t hash;
    uint64_t index;
  };
  static uint64_t hash_of(std::string_view name) { return std::hash<std::string_view>()(name); }

  std::vector<Entry> entries_;
};

}  // namespace sluice

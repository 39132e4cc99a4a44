#include "io/blocks.h"

#include <algorithm>
#include <functional>

namespace sluice {
namespace {

// Deeper numbers don't start blocks; it also bounds what a name of nothing but numbers costs.
constexpr unsigned kMaxLevels = 4;
constexpr size_t kMaxDigits = 9;

// A counting number in a tensor's name.
struct Candidate {
  uint64_t list_hash;
  uint64_t tensor;
  uint32_t list_size;   // bytes of the name before the number
  uint32_t block_size;  // bytes of the name up to the dot behind the number
  uint32_t number;
};

// The candidates of one list.
using List = std::span<const Candidate>;

class BlockFinder {
 public:
  explicit BlockFinder(std::span<const NamedSize> tensors) : tensors_(tensors) {}
  Blocks run();

 private:
  std::string_view list_of(const Candidate &candidate) const {
    return tensors_[candidate.tensor].name.substr(0, candidate.list_size);
  }
  std::string_view suffix_of(const Candidate &candidate) const {
    return tensors_[candidate.tensor].name.substr(candidate.block_size);
  }
  void add_candidates(uint64_t tensor);
  std::vector<List> lists() const;
  bool has_blocks(List list) const;
  bool numbers_are_alike(List list) const;
  void emit(List list, Blocks &out) const;

  std::span<const NamedSize> tensors_;
  std::vector<Candidate> candidates_;
};

// The number that `component` is in plain decimal; false: none.
bool counting_number(std::string_view component, uint32_t &number) {
  if (component.empty() || component.size() > kMaxDigits) return false;
  if (component.size() > 1 && component[0] == '0') return false;
  number = 0;
  for (const char c : component) {
    if (c < '0' || c > '9') return false;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return true;
}

void BlockFinder::add_candidates(uint64_t tensor) {
  const std::string_view name = tensors_[tensor].name;
  unsigned levels = 0;
  size_t start = 0;
  for (size_t dot = name.find('.'); dot != name.npos && levels < kMaxLevels;
       start = dot + 1, dot = name.find('.', start)) {
    uint32_t number = 0;
    if (!counting_number(name.substr(start, dot - start), number)) continue;
    ++levels;
    candidates_.push_back({std::hash<std::string_view>()(name.substr(0, start)), tensor,
                           static_cast<uint32_t>(start), static_cast<uint32_t>(dot + 1), number});
  }
}

std::vector<List> BlockFinder::lists() const {
  std::vector<List> out;
  for (size_t first = 0; first < candidates_.size();) {
    size_t last = first + 1;
    while (last < candidates_.size() &&
           candidates_[last].list_hash == candidates_[first].list_hash &&
           list_of(candidates_[last]) == list_of(candidates_[first])) {
      ++last;
    }
    out.emplace_back(candidates_.data() + first, last - first);
    first = last;
  }
  return out;
}

bool BlockFinder::has_blocks(List list) const {
  uint64_t numbers = 1;
  bool neighbours = false;
  for (size_t i = 1; i < list.size(); ++i) {
    if (list[i].number == list[i - 1].number) continue;
    ++numbers;
    neighbours = neighbours || list[i].number == list[i - 1].number + 1;
  }
  const bool missing = list.back().number - list.front().number + uint64_t{1} != numbers;
  return neighbours && list.size() >= numbers * (missing ? 3 : 2) && numbers_are_alike(list);
}

bool BlockFinder::numbers_are_alike(List list) const {
  std::vector<std::pair<uint64_t, const Candidate *>> suffixes;
  suffixes.reserve(list.size());
  for (const Candidate &candidate : list) {
    suffixes.emplace_back(std::hash<std::string_view>()(suffix_of(candidate)), &candidate);
  }
  std::sort(suffixes.begin(), suffixes.end());
  for (size_t i = 1; i < suffixes.size(); ++i) {
    const auto &[hash_a, a] = suffixes[i - 1];
    const auto &[hash_b, b] = suffixes[i];
    if (hash_a == hash_b && a->number != b->number && suffix_of(*a) == suffix_of(*b)) return true;
  }
  return false;
}

void BlockFinder::emit(List list, Blocks &out) const {
  for (size_t i = 0; i < list.size(); ++i) {
    const NamedSize &tensor = tensors_[list[i].tensor];
    if (i == 0 || list[i].number != list[i - 1].number) {
      out.blocks.push_back(
          {std::string(tensor.name.substr(0, list[i].block_size)), list[i].number, 0, 0});
    }
    Block &block = out.blocks.back();
    ++block.tensor_count;
    block.size_bytes += tensor.size_bytes;
    out.block_of[list[i].tensor] = static_cast<uint32_t>(out.blocks.size() - 1);
  }
}

Blocks BlockFinder::run() {
  for (uint64_t i = 0; i < tensors_.size(); ++i) add_candidates(i);
  std::sort(candidates_.begin(), candidates_.end(), [&](const Candidate &a, const Candidate &b) {
    if (a.list_hash != b.list_hash) return a.list_hash < b.list_hash;
    if (const int order = list_of(a).compare(list_of(b)); order != 0) return order < 0;
    return a.number != b.number ? a.number < b.number : a.tensor < b.tensor;
  });
  std::vector<List> found = lists();
  std::erase_if(found, [&](List list) { return !has_blocks(list); });

  // All tensors of a list have the same lists around it, so a list is outermost for all or none.
  std::vector<uint32_t> outermost(tensors_.size(), UINT32_MAX);
  for (const List list : found) {
    for (const Candidate &candidate : list) {
      uint32_t &size = outermost[candidate.tensor];
      size = std::min(size, candidate.list_size);
    }
  }
  std::erase_if(
      found, [&](List list) { return outermost[list.front().tensor] != list.front().list_size; });
  std::sort(found.begin(), found.end(),
            [&](List a, List b) { return list_of(a.front()) < list_of(b.front()); });

  Blocks out;
  out.block_of.assign(tensors_.size(), kNoBlock);
  for (const List list : found) emit(list, out);
  return out;
}

}  // namespace

Blocks find_blocks(std::span<const NamedSize> tensors) { return BlockFinder(tensors).run(); }

}  // namespace sluice

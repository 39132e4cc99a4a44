#include "io/file_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "io/name_table.h"

namespace sluice {

uint32_t HeaderTables::store(std::string_view text) {
  const auto start = static_cast<uint32_t>(texts.size());
  texts.append(text);
  texts.push_back('\0');
  return start;
}

std::optional<std::pair<uint64_t, uint64_t>> HeaderTables::twice_named() const {
  const auto name = [&](uint64_t i) { return name_of(tensors[i]); };
  NameTable names;
  names.build(tensors.size(), name);
  return names.duplicate(name);
}

std::optional<std::pair<uint64_t, uint64_t>> HeaderTables::twice_keyed() const {
  const auto key = [&](uint64_t i) { return key_of(metadata[i]); };
  NameTable keys;
  keys.build(metadata.size(), key);
  return keys.duplicate(key);
}

void HeaderTables::sort_by_offset() {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor &a, const Tensor &b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    return a.end != b.end ? a.end < b.end : a.header_byte < b.header_byte;
  });
}

FileHeader::FileHeader(HeaderTables tables) : tables_(std::move(tables)) {
  tables_.texts.shrink_to_fit();
  tables_.dimensions.shrink_to_fit();
  tables_.tensors.shrink_to_fit();
  tables_.metadata.shrink_to_fit();
  for (const HeaderTables::Tensor &tensor : tables_.tensors)
    data_bytes_ += tensor.end - tensor.begin;
}

HeaderTensor FileHeader::tensor(uint64_t index) const noexcept {
  const HeaderTables::Tensor &tensor = tables_.tensors[index];
  return {tables_.name_of(tensor), static_cast<sluice_type>(tensor.type), tables_.shape_of(tensor),
          tensor.begin, tensor.end};
}

std::pair<std::string_view, std::string_view> FileHeader::metadata(uint64_t index) const noexcept {
  const HeaderTables::Metadata &entry = tables_.metadata[index];
  return {tables_.key_of(entry), tables_.text(entry.value, entry.value_size)};
}

std::string shape_text(std::span<const uint64_t> shape) {
  constexpr size_t kMaxShown = 8;
  std::string out = "[";
  for (size_t i = 0; i < std::min(shape.size(), kMaxShown); ++i) {
    out += fmt::format("{}{}", i == 0 ? "" : ", ", shape[i]);
  }
  return out + (shape.size() > kMaxShown ? ", ...]" : "]");
}

bool multiply(uint64_t &a, uint64_t b) noexcept {
  if (b != 0 && a > std::numeric_limits<uint64_t>::max() / b) return false;
  a *= b;
  return true;
}

}  // namespace sluice

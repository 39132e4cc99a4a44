// What the header of one file of tensors says, whatever the file's format.
//
// A parser fills HeaderTables; a FileHeader keeps them and doesn't change any more.
//
// Threads: a header doesn't change once made.
// Invariant: tensors are sorted by offset and don't overlap; each holds exactly the bytes that its
// type and shape need; names are unique, and so are the keys of the metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/status.h"

namespace sluice {

// One tensor of a header, a view. Offsets count from the first byte of the file's data.
struct HeaderTensor {
  std::string_view name;  // zero-terminated
  sluice_type type;
  std::span<const uint64_t> shape;  // the dimension that varies slowest comes first
  uint64_t begin;
  uint64_t end;
};

// Positions in a header and in the tables' texts are kept in 32 bits: a format bounds its header.
struct HeaderTables {
  struct Tensor {
    uint64_t begin;
    uint64_t end;
    uint32_t name;  // where it starts in texts
    uint32_t name_size;
    uint32_t shape;  // where it starts in dimensions
    uint32_t header_byte;
    uint8_t dimension_count;
    uint8_t type;
  };
  struct Metadata {
    uint32_t key, key_size, value, value_size;
  };

  std::string texts;  // names, keys and values, each with a zero behind it
  std::vector<uint64_t> dimensions;
  std::vector<Tensor> tensors;
  std::vector<Metadata> metadata;

  uint32_t store(std::string_view text);  // where it starts in texts
  std::string_view text(uint32_t start, uint32_t size) const noexcept {
    return {texts.data() + start, size};
  }
  std::string_view name_of(const Tensor &tensor) const noexcept {
    return text(tensor.name, tensor.name_size);
  }
  std::string_view key_of(const Metadata &entry) const noexcept {
    return text(entry.key, entry.key_size);
  }
  std::span<const uint64_t> shape_of(const Tensor &tensor) const noexcept {
    return {dimensions.data() + tensor.shape, tensor.dimension_count};
  }

  // Two tensors (entries of metadata) of the same name: the earlier one, and the earliest that
  // repeats one.
  std::optional<std::pair<uint64_t, uint64_t>> twice_named() const;
  std::optional<std::pair<uint64_t, uint64_t>> twice_keyed() const;
  void sort_by_offset();
};

class FileHeader {
 public:
  explicit FileHeader(HeaderTables tables);

  uint64_t tensor_count() const noexcept { return tables_.tensors.size(); }
  HeaderTensor tensor(uint64_t index) const noexcept;
  std::string_view name(uint64_t index) const noexcept {
    return tables_.name_of(tables_.tensors[index]);
  }
  // The key and value of a piece of metadata, zero-terminated, in the header's order.
  uint64_t metadata_count() const noexcept { return tables_.metadata.size(); }
  std::pair<std::string_view, std::string_view> metadata(uint64_t index) const noexcept;
  uint64_t data_bytes() const noexcept { return data_bytes_; }  // of all tensors

 private:
  HeaderTables tables_;
  uint64_t data_bytes_ = 0;
};

// For messages: "[2, 3]", cut after 8 dimensions.
std::string shape_text(std::span<const uint64_t> shape);

// Whether a * b fits; the product then replaces a.
bool multiply(uint64_t &a, uint64_t b) noexcept;

}  // namespace sluice

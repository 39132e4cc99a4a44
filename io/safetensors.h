// The header of a safetensors file: one strict parser, without input or output.
// Format: https://github.com/huggingface/safetensors#format
//
// Verdicts are those of the safetensors library (0.8), as tests/unit/io/verdicts.py records them.
// Refused here although the library accepts it, because readers disagree about it or because a C
// string can't hold it:
//   - white space before the first '{' (the format demands '{' first),
//   - the same tensor name twice, the same key twice in __metadata__, the same unknown key twice in
//     a tensor's object (the library takes the last),
//   - a tensor written as an array ["F32",[1],[0,4]], a dtype written as an object {"F32":null}
//     (the library's decoder takes them; the format doesn't know them),
//   - NUL in a tensor's name or in __metadata__,
//   - more than SLUICE_MAX_DIMENSIONS dimensions.
// Accepted here although the library refuses it: fractions within one unit of the largest double,
// in the values of unknown keys (which both ignore).
//
// Threads: pure functions; a header doesn't change once parsed.
// Invariant: tensors are sorted by offset and cover [0, data_bytes) without holes or overlap; each
// holds exactly the bytes that its type and shape need.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/status.h"

namespace sluice {

inline constexpr uint64_t kSafetensorsPrefixBytes = 8;
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

const char *type_name(sluice_type type) noexcept;  // "BF16"; "UNKNOWN"
uint32_t type_bits(sluice_type type) noexcept;     // of one element; 0 for UNKNOWN

// One tensor of a header, a view. Offsets count from the first byte after the header.
struct SafetensorsTensor {
  std::string_view name;  // zero-terminated
  sluice_type type;
  std::span<const uint64_t> shape;
  uint64_t begin;
  uint64_t end;
};

class SafetensorsHeader {
 public:
  uint64_t tensor_count() const noexcept { return tensors_.size(); }
  SafetensorsTensor tensor(uint64_t index) const noexcept;
  std::string_view name(uint64_t index) const noexcept {
    return text(tensors_[index].name, tensors_[index].name_size);
  }
  // The key and value of __metadata__ entry `index`, zero-terminated, in the header's order.
  uint64_t metadata_count() const noexcept { return metadata_.size(); }
  std::pair<std::string_view, std::string_view> metadata(uint64_t index) const noexcept;
  uint64_t data_bytes() const noexcept { return tensors_.empty() ? 0 : tensors_.back().end; }

 private:
  friend class SafetensorsParser;

  // A header has at most 100 MB, so 32 bits reach everywhere in it.
  struct Tensor {
    uint64_t begin;
    uint64_t end;
    uint32_t name;  // where it starts in texts_
    uint32_t name_size;
    uint32_t shape;  // where it starts in dimensions_
    uint32_t header_byte;
    uint8_t dimension_count;
    uint8_t type;
  };
  struct Metadata {
    uint32_t key, key_size, value, value_size;
  };
  std::string_view text(uint32_t start, uint32_t size) const noexcept {
    return {texts_.data() + start, size};
  }

  std::string texts_;  // names, keys and values, each with a zero behind it
  std::vector<uint64_t> dimensions_;
  std::vector<Tensor> tensors_;
  std::vector<Metadata> metadata_;
};

// The length of the JSON header, from the first bytes of a file.
//   prefix      the first 8 bytes, or fewer when the file has fewer.
//   file_bytes  the file's size.
// Returns: OK; END_OF_FILE (the file ends before the header does); BAD_FORMAT (more than 100 MB;
// names the format that it looks like instead).
Result<uint64_t> safetensors_header_bytes(std::span<const unsigned char> prefix,
                                          uint64_t file_bytes);

// Parses the JSON header.
//   json        the header without its length; may end in white space.
//   data_bytes  the bytes that follow the header in the file.
// Returns: OK; BAD_FORMAT; END_OF_FILE (the data end inside a tensor). Messages name the tensor and
// the byte of the header, counted from its '{'. Throws only std::bad_alloc.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes);

}  // namespace sluice

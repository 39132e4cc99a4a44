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
// Threads: pure functions.
// Invariant: the tensors of a header cover [0, data_bytes) without holes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/file_header.h"
#include "runtime/status.h"

namespace sluice {

inline constexpr uint64_t kSafetensorsPrefixBytes = 8;
inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

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
Result<FileHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes);

}  // namespace sluice

// The header of a GGUF file: one strict parser, without input or output.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
// Versions 2 and 3, little-endian; version 1 and big-endian files are refused with a sentence that
// says so. Dimensions are turned around: in the file the one that varies fastest comes first, in a
// FileHeader it comes last.
//
// Metadata are all keys but split.no, split.count and split.tensors.count (they tell of the file,
// not of the model): numbers in decimal, bool as true or false, strings as they are, arrays by
// their kind and length only, as in "[string x 32000]".
//
// Refused here although some readers accept it:
//   - text that isn't UTF-8 or has a NUL, in names, keys and strings outside of arrays,
//   - an empty key; keys and names of more than 65535 bytes,
//   - a bool that is neither 0 nor 1,
//   - general.alignment that isn't a uint32, a power of two and from 8 to 1 MiB,
//   - split.no, split.count or split.tensors.count that isn't a whole number,
//   - more than 4 dimensions; arrays nested deeper than 8,
//   - a header of more than 256 MiB,
//   - tensors that overlap, or share their bytes.
// Accepted here although ggml refuses it: names of 64 bytes and more, arrays inside arrays, and
// holes between tensors, before the first and behind the last.
//
// Threads: pure functions.
// Bounds: memory is proportional to the bytes that are given, whatever the counts in them say; the
// contents of arrays are not kept.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "io/file_header.h"
#include "runtime/status.h"

namespace sluice {

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr uint64_t kGgufMaxHeaderBytes = uint64_t{256} << 20;

// Which file of a set it is; a file that was merged from a set, and says split.count 0, is in none.
struct GgufSplit {
  uint64_t number;                       // from 0 to count - 1
  uint64_t count;                        // of the files; 1 or more
  std::optional<uint64_t> tensor_count;  // of the whole set
};

struct GgufHeader {
  FileHeader header;
  uint64_t data_offset;  // of the first byte of data, in the file
  std::optional<GgufSplit> split;
};

// Either the header, or how much of the file is needed to get on.
struct GgufParse {
  std::optional<GgufHeader> header;
  uint64_t needed_bytes = 0;  // more than were given, from the file's first byte
};

// Parses the header from the first bytes of a file. It doesn't say how long it is: when more is
// needed, call again with at least needed_bytes. What the answer is doesn't depend on the pieces.
//   start       the file's first bytes, as many as are at hand.
//   file_bytes  the file's size.
// Returns: OK; BAD_FORMAT; END_OF_FILE (the file ends inside the header or a tensor). Messages name
// the key or tensor and the byte of the file. Throws only std::bad_alloc.
Result<GgufParse> parse_gguf_header(std::span<const unsigned char> start, uint64_t file_bytes);

}  // namespace sluice

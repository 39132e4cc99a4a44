// Reads the header of an open file, whichever format it has: a file that starts with "GGUF" is a
// GGUF file, every other one a safetensors file.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>

#include "io/file.h"
#include "io/file_header.h"
#include "io/gguf.h"
#include "runtime/status.h"

namespace sluice {

struct LoadedHeader {
  sluice_format format;
  FileHeader header;
  uint64_t data_offset;  // of the first byte of data, in the file
  std::optional<GgufSplit> split;
};

// Reads no weights, but a GGUF header's last piece may reach into them.
// Returns: OK; BAD_FORMAT; END_OF_FILE; those of File::read_exactly. Messages name the file.
Result<LoadedHeader> load_header(const File &file);

// The same, for a file that has to be a safetensors file.
Result<LoadedHeader> load_safetensors_header(const File &file);

}  // namespace sluice

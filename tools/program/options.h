// The command line: sluice's own options (the library's parser takes them, on every command) and
// those of the command (CLI11).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/sluice.h"
#include "tools/program/sized.h"

namespace program {

struct GenerateRequest {
  std::string path;
  uint64_t size_bytes = 0;
  uint64_t tensors = 200;
  uint32_t shards = 0;  // 0: one file; else a folder with this many files
  uint64_t blocks = 0;
  uint64_t seed = 1;
  sluice_type type = SLUICE_TYPE_UNKNOWN;        // set when the command line has been read
  sluice_format format = SLUICE_FORMAT_UNKNOWN;  // the same
  bool odd = false;
};

struct BenchRequest {
  unsigned rounds = 5;
  uint64_t size_bytes = 0;  // most of the file to read; 0: the default
  bool cold = false;
};

struct Request {
  sluice_options library = sized<sluice_options>();
  std::string command;             // empty: only `text` is wanted
  std::string text;                // of --help and --version
  std::vector<std::string> paths;  // doctor: any number; inspect, load: one; repack, bench: two
  std::optional<uint32_t> device;
  bool json = false;
  bool tensors = false;
  bool verify = false;
  bool force = false;             // repack
  uint64_t shard_size_bytes = 0;  // repack; 0: as many files as there are
  GenerateRequest generate;
  BenchRequest bench;
};

// Takes sluice's options out of `arguments`, which must outlive the request. Throws UsageError.
[[nodiscard]] Request parse_command_line(int count, char **arguments);

// Whether --json is among the arguments: also errors of parsing are then JSON.
[[nodiscard]] bool asks_for_json(int count, char **arguments);

}  // namespace program

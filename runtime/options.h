// The options: one table of names from which environment variables, flags and help follow.
//
// Threads: pure functions of their arguments and of the environment.
#pragma once

#include <string>

#include "runtime/sluice.h"
#include "runtime/status.h"

namespace sluice {

struct Options {
  sluice_log_level log_level = SLUICE_LOG_WARNING;
  sluice_log_function log_function = nullptr;
  void *log_user = nullptr;
  std::string driver = "auto";
  uint64_t vram_limit = SLUICE_NO_LIMIT;
  uint64_t vram_headroom = 0;
  uint64_t pinned_limit = 0;  // 0: by the system's facts
  uint64_t ring = 0;          // 0: the default, which may shrink silently
  uint64_t slot = 0;
  sluice_io_backend io = SLUICE_IO_AUTO;
  uint32_t io_workers = 0;  // 0: by the number of processors
  sluice_switch direct_io = SLUICE_AUTO;
  sluice_switch fast_disk = SLUICE_AUTO;
  sluice_switch huge_pages = SLUICE_AUTO;
};

// The struct, then the environment, then the defaults; everything checked against its bounds.
Result<Options> resolve_options(const sluice_options *given);

Result<uint64_t> parse_size(std::string_view text);
std::string format_size(uint64_t bytes);  // "48 MiB", "1.50 GiB"

}  // namespace sluice

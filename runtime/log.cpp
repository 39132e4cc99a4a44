#include "runtime/log.h"

#include <cstdio>

namespace sluice {

void Log::emit_static(sluice_log_level level, const char *line) const noexcept {
  if (function_)
    function_(user_, level, line);
  else
    std::fprintf(stderr, "%s\n", line);
}

}  // namespace sluice

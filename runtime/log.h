// Log lines "[sluice][part] text", to the sink that the runtime was given or to stderr.
//
// Threads: any; no lock is held while a sink runs.
#pragma once

#include <fmt/format.h>

#include "runtime/sluice.h"

namespace sluice {

class Log {
 public:
  Log(sluice_log_level level, sluice_log_function function, void *user) noexcept
      : level_(level), function_(function), user_(user) {}

  bool enabled(sluice_log_level level) const noexcept { return level <= level_; }

  template <typename... Args>
  void write(sluice_log_level level, const char *part, fmt::format_string<Args...> format,
             Args &&...args) const noexcept {
    if (!enabled(level)) return;
    try {
      const std::string text = fmt::format(format, std::forward<Args>(args)...);
      emit(level, fmt::format("[sluice][{}] {}", part, text));
    } catch (...) {
      emit_static(level, "[sluice][log] a line was lost: out of memory");
    }
  }

 private:
  void emit(sluice_log_level level, const std::string &line) const noexcept {
    emit_static(level, line.c_str());
  }
  void emit_static(sluice_log_level level, const char *line) const noexcept;

  sluice_log_level level_;
  sluice_log_function function_;
  void *user_;
};

;

}  // namespace sluice

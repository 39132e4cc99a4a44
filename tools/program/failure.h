// How the program gives up: one exception type for what failed (exit 1) and one for wrong usage
// (exit 2). Both carry the sentence that main.cpp prints; nothing else prints errors.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/sluice.h"

namespace program {

constexpr int kExitDone = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

struct Failure : std::runtime_error {
  Failure(std::string_view status_name, const std::string &message)
      : std::runtime_error(message), status(status_name) {}

  std::string status;  // name of a sluice_status, or VERIFY_FAILED
  std::string call;    // the driver or system call that failed; empty when none did
  int code = 0;        // that call's native code
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What the library recorded about the last failed call of this thread.
[[nodiscard]] Failure library_failure(sluice_status status);

// "writing 'x' failed: No space left on device", from errno's value.
[[nodiscard]] Failure system_failure(const std::string &what, const char *call, int error);

// Throws library_failure unless the status is OK.
void check(sluice_status status);

}  // namespace program

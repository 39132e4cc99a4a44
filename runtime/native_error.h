// The system's own code behind an errno value that a row of the operating-system table answered,
// where the system has others.
//
// Threads: what a row on Windows fails with is remembered for its thread, until the next row fails
// there or the code was asked for. So system_error() is called on that thread, before anything else
// can fail; an errno that isn't that of the remembered code has none.
#pragma once

#include <optional>
#include <string>

#include "runtime/sluice.h"

namespace sluice {

struct NativeError {
  sluice_error_domain domain = SLUICE_DOMAIN_SYSTEM;
  int code = 0;
  std::string text;  // the system's sentence, with the code
  const char *remedy = "";
};

// Throws std::bad_alloc.
std::optional<NativeError> take_native_error(int error_number);

// Rows on Windows answer this: the negated errno of a GetLastError value, which is remembered.
int failed_with(unsigned long windows_code) noexcept;

}  // namespace sluice

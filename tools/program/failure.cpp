#include "tools/program/failure.h"

#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "tools/program/sized.h"

namespace program {

Failure library_failure(sluice_status status) {
  auto error = sized<sluice_error>();
  const bool recorded = sluice_error_get(&error) == SLUICE_OK && error.status == int{status};
  std::string message = recorded ? error.message : "";
  if (message.empty()) message = sluice_status_text(status);
  Failure failure(sluice_status_name(status), message);
  if (recorded) {
    failure.call = error.call;
    failure.code = error.code;
  }
  return failure;
}

Failure system_failure(const std::string &what, const char *call, int error) {
  const char *status = sluice_status_name(SLUICE_SYSTEM_ERROR);
  if (error == ENOENT) status = sluice_status_name(SLUICE_NOT_FOUND);
  if (error == EACCES || error == EPERM) status = sluice_status_name(SLUICE_NOT_PERMITTED);
  if (error == EMFILE || error == ENFILE) {
    status = sluice_status_name(SLUICE_OUT_OF_FILE_DESCRIPTORS);
  }
  Failure failure(status, fmt::format("{}: {}", what, std::generic_category().message(error)));
  failure.call = call;
  failure.code = error;
  return failure;
}

void check(sluice_status status) {
  if (status != SLUICE_OK) throw library_failure(status);
}

}  // namespace program

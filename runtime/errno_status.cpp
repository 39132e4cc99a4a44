// What an errno means, once for the whole library.
#include <cerrno>
#include <optional>
#include <system_error>

#include "runtime/native_error.h"
#include "runtime/status.h"

namespace sluice {
namespace {

struct Meaning {
  sluice_status status;
  const char *remedy;
};

Meaning meaning_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return {SLUICE_NOT_FOUND, ""};
    case EACCES:
    case EPERM:
      return {SLUICE_NOT_PERMITTED, "check permissions, seccomp filters and sysctl settings"};
    case EMFILE:
      return {SLUICE_OUT_OF_FILE_DESCRIPTORS, "raise the limit with ulimit -n"};
    case ENFILE:
      return {SLUICE_OUT_OF_FILE_DESCRIPTORS, "raise the sysctl fs.file-max"};
    case ENOMEM:
      return {SLUICE_OUT_OF_HOST_MEMORY, ""};
    case ENOSYS:
    case EOPNOTSUPP:
      return {SLUICE_NOT_SUPPORTED, ""};
    case EIO:
    case ENXIO:
    case ENODEV:
#ifdef ESTALE
    case ESTALE:
#endif
      return {SLUICE_IO_ERROR, "the disk or its connection failed; see the kernel's log"};
    case EISDIR:
      return {SLUICE_INVALID_ARGUMENT, "it is a directory"};
    default:
      return {SLUICE_SYSTEM_ERROR, ""};
  }
}

}  // namespace

Status system_error(const char *call, int error_number, std::string_view what) noexcept {
  try {
    const Meaning meaning = meaning_of(error_number);
    std::optional<NativeError> native = take_native_error(error_number);
    if (!native)
      native = {SLUICE_DOMAIN_SYSTEM, error_number,
                fmt::format("{} ({})", std::generic_category().message(error_number), error_number),
                meaning.remedy};
    return Status::from({meaning.status, native->domain, native->code, call,
                         fmt::format("{}: {} failed with {}{}{}", what, call, native->text,
                                     *native->remedy ? "; " : "", native->remedy)});
  } catch (...) {
    return Status::out_of_host_memory();
  }
}

}  // namespace sluice

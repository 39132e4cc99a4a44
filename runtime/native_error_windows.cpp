#include "runtime/native_error.h"

#include <windows.h>

#include <cerrno>
#include <utility>

#include "runtime/wide_text_windows.h"

namespace sluice {
namespace {

thread_local DWORD last_code = ERROR_SUCCESS;

int errno_of(DWORD code) {
  switch (code) {
    case ERROR_SUCCESS:
      return 0;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_BAD_NETPATH:
    case ERROR_BAD_NET_NAME:
    case ERROR_INVALID_DRIVE:
      return ENOENT;
    case ERROR_DIRECTORY:
      return ENOTDIR;
    case ERROR_FILENAME_EXCED_RANGE:
      return ENAMETOOLONG;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
      return EACCES;
    case ERROR_TOO_MANY_OPEN_FILES:
      return EMFILE;
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_WORKING_SET_QUOTA:
    case ERROR_COMMITMENT_LIMIT:
    case ERROR_MAX_THRDS_REACHED:
      return ENOMEM;
    case ERROR_INVALID_PARAMETER:
      return EINVAL;
    case ERROR_INVALID_HANDLE:
      return EBADF;
    case ERROR_NOACCESS:
      return EFAULT;
    case ERROR_CALL_NOT_IMPLEMENTED:
      return ENOSYS;
    case ERROR_NOT_SUPPORTED:
    case ERROR_INVALID_FUNCTION:
      return EOPNOTSUPP;
    case ERROR_OPERATION_ABORTED:
      return EINTR;
    case ERROR_NOT_READY:
    case ERROR_DEV_NOT_EXIST:
    case ERROR_DEVICE_NOT_CONNECTED:
      return ENXIO;
    default:
      return EIO;
  }
}

const char *remedy_for(DWORD code) {
  switch (code) {
    case ERROR_SHARING_VIOLATION:
    case ERROR_LOCK_VIOLATION:
      return "another program has it open: close that";
    case ERROR_ACCESS_DENIED:
      return "check the permissions of the file and of its folder";
    case ERROR_TOO_MANY_OPEN_FILES:
      return "the process has too many files open";
    case ERROR_NOT_ENOUGH_MEMORY:
    case ERROR_OUTOFMEMORY:
    case ERROR_COMMITMENT_LIMIT:
      return "a larger page file allows more memory";
    default:
      return errno_of(code) == EIO || errno_of(code) == ENXIO
                 ? "the disk or its connection failed; see the system's event log"
                 : "";
  }
}

}  // namespace

int failed_with(unsigned long windows_code) noexcept {
  last_code = windows_code;
  return -errno_of(windows_code);
}

std::optional<NativeError> take_native_error(int error_number) {
  const DWORD code = std::exchange(last_code, ERROR_SUCCESS);
  if (code == ERROR_SUCCESS || errno_of(code) != error_number) return std::nullopt;
  return NativeError{SLUICE_DOMAIN_WINDOWS, static_cast<int>(code), error_text(code),
                     remedy_for(code)};
}

}  // namespace sluice

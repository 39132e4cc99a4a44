#include "io/read_operation.h"

#include <algorithm>
#include <cerrno>

#include "runtime/limits.h"

namespace sluice {

ReadStep ReadOperation::again() noexcept {
  ++retries;
  if (++attempts <= kMaxReadAttempts) return ReadStep::kAgain;
  return ReadStep::kFailed;
}

// A flag is given up at the read that failed: the page cache's, the registered buffer, direct
// reads.
ReadStep ReadOperation::refused(int number) noexcept {
  if (asked_uncached && number == EOPNOTSUPP) {
    file->refuse_uncached();
    return again();
  }
  if (fixed) {
    fixed = false;
    return again();
  }
  if (direct) {
    file->refuse_direct(number);
    direct = false;
    return again();
  }
  error_number = number;
  return ReadStep::kFailed;
}

ReadStep ReadOperation::advance(int result) noexcept {
  if (result > 0) {
    const auto count = std::min(static_cast<uint32_t>(result), next_bytes());
    uint32_t got = got_bytes + count;
    if (got >= needed_bytes) {
      got_bytes = got;
      return ReadStep::kDone;
    }
    // A direct read goes on from an aligned place only; what is past it is read once more.
    if (direct) got -= got % static_cast<uint32_t>(kDirectAlignment);
    const bool progress = got > got_bytes;
    got_bytes = got;
    if (progress) attempts = 0;
    if (offset + got >= file->size_bytes() || !progress) direct = false;
    return again();
  }
  error_number = -result;
  switch (-result) {
    case 0:
      return ReadStep::kFailed;
    case EINTR:
    case EAGAIN:
      return again();
    case EINVAL:
    case EFAULT:
    case EOPNOTSUPP:
      return refused(-result);
    default:
      return ReadStep::kFailed;
  }
}

Status ReadOperation::failure() const noexcept {
  if (error_number == 0)
    return error(SLUICE_END_OF_FILE,
                 "{}: the file ends at or before byte {}, {} bytes at {} are "
                 "needed; it was truncated",
                 file->path(), next_offset(), needed_bytes, offset);
  return system_error("read", error_number,
                      fmt::format("{}: {} bytes at {}", file->path(), next_bytes(), next_offset()));
}

}  // namespace sluice

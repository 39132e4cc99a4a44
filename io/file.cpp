#include "io/file.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "alloc/host_mapping.h"
#include "runtime/limits.h"

namespace sluice {

File::File(Runtime &runtime)
    : runtime_(runtime), open_(runtime.children(), ChildKind::kFile), id_([] {
        static std::atomic<uint64_t> next{1};
        return next.fetch_add(1, std::memory_order_relaxed);
      }()) {}

Result<std::unique_ptr<File>> File::open(Runtime &runtime, const std::string &path) {
  std::unique_ptr<File> file(new File(runtime));
  file->path_ = path;
  const int descriptor = os().open_read(path.c_str());
  if (descriptor < 0) return system_error("open", -descriptor, path);
  file->buffered_ = Descriptor(descriptor);
  const int result = os().file_facts(descriptor, &file->facts_);
  if (result < 0) return system_error("statx", -result, path);
  if (!file->facts_.regular)
    return error(SLUICE_INVALID_ARGUMENT, "{} is {}, not a regular file", path,
                 file->facts_.directory ? "a directory" : "a device, pipe or socket");
  return file;
}

void File::conclude(DirectVerdict verdict, std::string reason) {
  direct_reason_ = std::move(reason);
  verdict_.store(verdict, std::memory_order_release);
}

// By doing: opening with O_DIRECT succeeds on file systems that then refuse the first read.
void File::try_direct() {
  const auto refuse = [&](const char *call, int error_number) {
    conclude(DirectVerdict::kRefused,
             fmt::format("{} answered: {}", call, std::generic_category().message(error_number)));
  };
  if (facts_.direct_known && facts_.direct_offset_alignment == 0)
    return conclude(DirectVerdict::kRefused, "the file system says that it has no direct reads");
  if (std::max(facts_.direct_offset_alignment, facts_.direct_memory_alignment) > kDirectAlignment)
    return conclude(DirectVerdict::kRefused, "the disk needs an alignment above 4096 bytes");
  const int descriptor = os().reopen_direct(buffered());
  if (descriptor < 0) return refuse("opening for direct reads", -descriptor);
  Descriptor direct(descriptor);
  auto page = HostMapping::create(runtime(), kDirectAlignment, kDirectAlignment);
  if (!page.ok()) return refuse("a buffer for a direct read", ENOMEM);
  const int64_t got = os().read_at(descriptor, page.value().data(), kDirectAlignment, 0);
  if (got < 0 && got != -EINTR && got != -EAGAIN)
    return refuse("a direct read", static_cast<int>(-got));
  direct_ = std::move(direct);
  conclude(DirectVerdict::kWorks, "a direct read was tried and works");
}

int File::direct() {
  if (direct_verdict() == DirectVerdict::kUntried) {
    const std::lock_guard lock(mutex_);
    if (direct_verdict() == DirectVerdict::kUntried) {
      try_direct();
      if (direct_verdict() == DirectVerdict::kRefused) {
        runtime().counters().direct_io_fallbacks.add();
        runtime().log().write(SLUICE_LOG_INFO, "io", "{}: read buffered, {}", path_,
                              direct_reason_);
      }
    }
  }
  return direct_verdict() == DirectVerdict::kWorks ? direct_.get() : -1;
}

std::string File::direct_reason() const {
  const std::lock_guard lock(mutex_);
  return direct_reason_;
}

void File::refuse_direct(int error_number) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (direct_verdict() == DirectVerdict::kRefused) return;
    conclude(DirectVerdict::kRefused, fmt::format("a direct read answered: {}",
                                                  std::generic_category().message(error_number)));
  } catch (...) {
    verdict_.store(DirectVerdict::kRefused, std::memory_order_release);
  }
  runtime().counters().direct_io_fallbacks.add();
  runtime().log().write(SLUICE_LOG_WARNING, "io",
                        "{}: goes on buffered, a direct read failed with "
                        "{}",
                        path_, error_number);
}

uint64_t File::cached_bytes(uint64_t offset, uint64_t bytes) const {
  constexpr uint64_t kWindows = 32;
  constexpr uint64_t kWindow = kMiB;
  if (bytes == 0) return 0;
  if (bytes <= kWindows * kWindow) {
    const int64_t cached = os().cached_bytes(buffered(), offset, bytes);
    return cached < 0 ? UINT64_MAX : std::min(static_cast<uint64_t>(cached), bytes);
  }
  uint64_t cached = 0;
  for (uint64_t i = 0; i < kWindows; ++i) {
    const uint64_t at = offset + (bytes - kWindow) / (kWindows - 1) * i;
    const int64_t part = os().cached_bytes(buffered(), at, kWindow);
    if (part < 0) return UINT64_MAX;
    cached += std::min(static_cast<uint64_t>(part), kWindow);
  }
  const double fraction = static_cast<double>(cached) / static_cast<double>(kWindows * kWindow);
  return static_cast<uint64_t>(fraction * static_cast<double>(bytes));
}

Status File::read_exactly(uint64_t offset, void *buffer, uint64_t bytes) const {
  uint64_t done = 0;
  uint32_t idle = 0;
  while (done < bytes) {
    const int64_t got = os().read_at(buffered(), static_cast<std::byte *>(buffer) + done,
                                     static_cast<size_t>(bytes - done), offset + done);
    if (got > 0) {
      done += static_cast<uint64_t>(got);
    } else if (got == 0) {
      return error(SLUICE_END_OF_FILE, "{}: ends at byte {}, {} bytes at {} are needed", path_,
                   offset + done, bytes, offset);
    } else if ((got != -EINTR && got != -EAGAIN) || ++idle == kMaxReadAttempts) {
      return system_error("pread", static_cast<int>(-got), path_);
    }
  }
  return {};
}

}  // namespace sluice

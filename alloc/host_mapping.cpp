#include "alloc/host_mapping.h"

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/limits.h"
#include "runtime/os.h"

namespace sluice {

HostMapping::HostMapping(HostMapping &&other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

HostMapping::~HostMapping() {
  if (!mapping_) return;
  if (os().unmap_memory(mapping_, mapping_bytes_) != 0) os().unmap_memory(mapping_, mapping_bytes_);
}

void HostMapping::advise(Runtime &runtime) noexcept {
  os().advise(mapping_, mapping_bytes_, Advice::kDontFork);
  os().advise(mapping_, mapping_bytes_, Advice::kDontDump);
  const bool huge = runtime.options().huge_pages != SLUICE_OFF;
  const Advice advice = huge ? Advice::kHugePages : Advice::kNoHugePages;
  if (os().advise(mapping_, mapping_bytes_, advice) != 0 && huge)
    runtime.counters().huge_page_fallbacks.add();
}

namespace {

struct Part {
  std::byte *data;
  size_t bytes;
};

void touch_part(void *argument) {
  const Part &part = *static_cast<Part *>(argument);
  for (size_t at = 0; at < part.bytes; at += page_bytes())
    *reinterpret_cast<volatile std::byte *>(part.data + at) = std::byte{0};
}

}  // namespace

// Registering touched memory is an order of magnitude faster than untouched; and most of the time
// of a first touch is spent in the system, which several threads share.
void HostMapping::touch(uint32_t processors) noexcept {
  constexpr size_t kHugePage = 2 * kMiB;
  constexpr uint32_t kMost = 8;
  const auto pages = static_cast<uint32_t>(std::min<size_t>(bytes_ / kHugePage, kMost));
  const uint32_t count = std::max(1u, std::min(pages, processors));
  const size_t step = (bytes_ / count + kHugePage - 1) / kHugePage * kHugePage;
  std::array<Part, kMost> parts;
  std::array<uint64_t, kMost> threads;
  uint32_t started = 0;
  size_t at = 0;
  for (; started + 1 < count && at + step < bytes_; at += step) {
    parts[started] = {data_ + at, step};
    if (os().thread_start(touch_part, &parts[started], &threads[started]) != 0) break;
    ++started;
  }
  Part rest{data_ + at, bytes_ - at};
  touch_part(&rest);
  for (uint32_t i = 0; i < started; ++i) os().thread_join(threads[i]);
}

Result<HostMapping> HostMapping::create(Runtime &runtime, size_t bytes, size_t alignment) {
  HostMapping mapping;
  const size_t step = std::max(alignment, page_bytes());
  void *start = nullptr;
  const int result = os().map_memory(bytes + step, &start);
  if (result != 0) return system_error("mmap", -result, format_size(bytes) + " of host memory");
  mapping.mapping_ = start;
  mapping.mapping_bytes_ = bytes + step;
  const auto address = (reinterpret_cast<uintptr_t>(start) + step - 1) / step * step;
  mapping.data_ = reinterpret_cast<std::byte *>(address);
  mapping.bytes_ = bytes;
  mapping.advise(runtime);
  mapping.touch(runtime.facts().processors);
  return mapping;
}

}  // namespace sluice

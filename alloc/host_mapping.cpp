#include "alloc/host_mapping.h"

#include <algorithm>
#include <utility>

#include "runtime/os.h"

namespace sluice {

HostMapping::HostMapping(HostMapping &&other) noexcept
    : mapping_(std::exchange(other.mapping_, nullptr)),
      mapping_bytes_(other.mapping_bytes_),
      data_(other.data_),
      bytes_(other.bytes_) {}

HostMapping::~HostMapping() {
  if (!mapping_) return;
  if (os().unmap_memory(mapping_, mapping_bytes_) != 0)
    os().unmap_memory(mapping_, mapping_bytes_);
}

void HostMapping::advise(Runtime &runtime) noexcept {
  os().advise(mapping_, mapping_bytes_, Advice::kDontFork);
  os().advise(mapping_, mapping_bytes_, Advice::kDontDump);
  const bool huge = runtime.options().huge_pages != SLUICE_OFF;
  const Advice advice = huge ? Advice::kHugePages : Advice::kNoHugePages;
  if (os().advise(mapping_, mapping_bytes_, advice) != 0 && huge)
    runtime.counters().huge_page_fallbacks.add();
}

// Registering touched memory is an order of magnitude faster than untouched.
void HostMapping::touch() noexcept {
  for (size_t at = 0; at < bytes_; at += page_bytes())
    *reinterpret_cast<volatile std::byte *>(data_ + at) = std::byte{0};
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
  mapping.touch();
  return mapping;
}

}  // namespace sluice

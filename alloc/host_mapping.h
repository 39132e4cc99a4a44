// Host memory of our own: an anonymous mapping, aligned, touched, in huge pages where the system
// gives them. Kept out of forks (a fork during direct reads can corrupt them) and of core dumps.
//
// Threads: one owner.
#pragma once

#include <cstddef>

#include "runtime/runtime.h"

namespace sluice {

class HostMapping {
 public:
  // `alignment` is a power of two. The memory is zero.
  static Result<HostMapping> create(Runtime &runtime, size_t bytes, size_t alignment);
  HostMapping(HostMapping &&other) noexcept;
  HostMapping &operator=(HostMapping &&) = delete;
  ~HostMapping();

  std::byte *data() const noexcept { return data_; }
  size_t size_bytes() const noexcept { return bytes_; }
  // The memory stays mapped until the process ends.
  void leak() noexcept { mapping_ = nullptr; }

 private:
  HostMapping() = default;
  void advise(Runtime &runtime) noexcept;
  void touch(uint32_t processors) noexcept;

  void *mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  std::byte *data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace sluice

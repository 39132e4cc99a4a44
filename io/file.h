// A file opened for reading: a buffered descriptor, and a direct one where the file system gives
// it. Whether direct reads really work is known only after one: the answer is remembered.
//
// Threads: any; the descriptors don't change once open, the verdict on direct reads is atomic.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/os.h"
#include "runtime/runtime.h"

namespace sluice {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) noexcept : value_(value) {}
  Descriptor(Descriptor &&other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Descriptor() {
    if (value_ >= 0) os().close(value_);
  }
  int get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ >= 0; }

 private:
  int value_ = -1;
};

enum class DirectVerdict { kUntried, kWorks, kRefused };

class File {
 public:
  static Result<std::unique_ptr<File>> open(Runtime &runtime, const std::string &path);

  // Never the same for two files, unlike addresses and descriptors.
  uint64_t id() const noexcept { return id_; }
  const std::string &path() const noexcept { return path_; }
  uint64_t size_bytes() const noexcept { return facts_.size_bytes; }
  Runtime &runtime() const noexcept { return runtime_; }
  int buffered() const noexcept { return buffered_.get(); }

  // Opens the direct descriptor on first use and tries one read through it. -1 where direct
  // reads don't work.
  int direct();
  DirectVerdict direct_verdict() const noexcept { return verdict_.load(std::memory_order_acquire); }
  std::string direct_reason() const;
  // A read said that direct reads don't work after all. Remembered and logged once.
  void refuse_direct(int error_number) noexcept;

  // The same for the file system on which the file lies.
  uint64_t disk() const noexcept { return facts_.disk; }
  // False once the system has refused to read past the page cache through the buffered descriptor.
  bool uncached_reads() const noexcept { return uncached_reads_.load(std::memory_order_relaxed); }
  void refuse_uncached() noexcept { uncached_reads_.store(false, std::memory_order_relaxed); }

  // Bytes of the range in the page cache, estimated from samples; UINT64_MAX when unknown.
  uint64_t cached_bytes(uint64_t offset, uint64_t bytes) const;

  // Reads exactly `bytes` at `offset` through the buffered descriptor. For headers.
  Status read_exactly(uint64_t offset, void *buffer, uint64_t bytes) const;

  // Reads that use the file.
  void use_begins() noexcept { uses_.fetch_add(1, std::memory_order_relaxed); }
  void use_ends() noexcept { uses_.fetch_sub(1, std::memory_order_release); }
  uint64_t uses() const noexcept { return uses_.load(std::memory_order_acquire); }

 private:
  explicit File(Runtime &runtime);
  void try_direct();
  void conclude(DirectVerdict verdict, std::string reason);

  Runtime &runtime_;
  const OpenChild open_;
  const uint64_t id_;
  std::string path_;
  FileFacts facts_;
  Descriptor buffered_;
  Descriptor direct_;
  std::atomic<DirectVerdict> verdict_{DirectVerdict::kUntried};
  std::atomic<bool> uncached_reads_{true};
  mutable std::mutex mutex_;
  std::string direct_reason_;
  std::atomic<uint64_t> uses_{0};
};

}  // namespace sluice

struct sluice_file {
  std::unique_ptr<sluice::File> owned;
  sluice::File *file = nullptr;  // owned, or a checkpoint's
};

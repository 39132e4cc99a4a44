// Threads: a few workers take pieces in turn from one list; each has a pair of buffers and its
// own stream (that of the thread). Together they use kMostWorkers * 2 * kPieceBytes of RAM.
#include "tools/program/verify.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/interrupt.h"
#include "tools/program/output.h"
#include "tools/program/owned_fd.h"
#include "tools/program/progress.h"
#include "tools/program/sized.h"

namespace program {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{4} << 20;
constexpr unsigned kMostWorkers = 4;
constexpr size_t kMostNames = 10;
void *const kStreamPerThread = reinterpret_cast<void *>(uintptr_t{2});  // CU_STREAM_PER_THREAD

constexpr uint64_t kSame = UINT64_MAX;

// What one thread reads: one file at a time, since a checkpoint may have more than may be open.
class ShardReader {
 public:
  void read(const std::string &path, uint64_t offset, uint64_t bytes, unsigned char *target) {
    if (fd_.get() < 0 || path != path_) open(path);
    while (bytes != 0) {
      const int64_t count = read_at(fd_.get(), target, bytes, offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        throw system_failure(fmt::format("reading '{}' at {} to verify it failed", path, offset),
                             "pread", errno);
      }
      if (count == 0) {
        throw Failure(sluice_status_name(SLUICE_END_OF_FILE),
                      fmt::format("'{}' now ends at {}: it was truncated while it was verified",
                                  path, offset));
      }
      target += count;
      offset += static_cast<uint64_t>(count);
      bytes -= static_cast<uint64_t>(count);
    }
  }

 private:
  void open(const std::string &path) {
    fd_ = OwnedFd();
    fd_ = OwnedFd(open_to_read(path));
    if (fd_.get() < 0)
      throw system_failure(fmt::format("opening '{}' to verify it failed", path), "open", errno);
    path_ = path;
  }

  std::string path_;
  OwnedFd fd_;
};

struct Piece {
  sluice_tensor_info tensor;
  uint64_t index = 0;   // of the tensor
  uint64_t offset = 0;  // in the tensor
  uint64_t bytes = 0;
};

// Offset of the first byte that differs; kSame when none does.
uint64_t first_difference(const std::vector<unsigned char> &a, const std::vector<unsigned char> &b,
                          uint64_t bytes) {
  if (std::memcmp(a.data(), b.data(), bytes) == 0) return kSame;
  const auto end = a.begin() + static_cast<ptrdiff_t>(bytes);
  return static_cast<uint64_t>(std::mismatch(a.begin(), end, b.begin()).first - a.begin());
}

class Verifier {
 public:
  Verifier(sluice_checkpoint *checkpoint, sluice_device *device,
           const std::vector<uint64_t> &addresses)
      : checkpoint_(checkpoint), device_(device), addresses_(addresses), progress_("verifying") {
    know_shards();
    differs_at_.assign(addresses.size(), kSame);
  }

  VerifyResult run() {
    const auto start = std::chrono::steady_clock::now();
    const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < workers; ++i) threads.emplace_back([this] { work(); });
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
    progress_.finish();
    VerifyResult result = summarize();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    result.seconds = passed.count();
    return result;
  }

 private:
  void know_shards() {
    auto info = sized<sluice_checkpoint_info>();
    check(sluice_checkpoint_info_get(checkpoint_, &info));
    bytes_total_ = info.data_bytes;
    for (uint32_t i = 0; i < info.shard_count; ++i) {
      const char *path = nullptr;
      check(sluice_checkpoint_shard(checkpoint_, i, &path, nullptr));
      shards_.emplace_back(path);
    }
  }

  // False: nothing is left.
  bool take(Piece *piece) {
    const std::scoped_lock lock(mutex_);
    if (failure_ || interrupted() != 0) return false;
    while (next_tensor_ < addresses_.size()) {
      piece->tensor = sized<sluice_tensor_info>();
      check(sluice_checkpoint_tensor(checkpoint_, next_tensor_, &piece->tensor));
      piece->index = next_tensor_;
      piece->offset = next_offset_;
      piece->bytes = std::min(kPieceBytes, piece->tensor.size_bytes - next_offset_);
      next_offset_ += piece->bytes;
      if (next_offset_ == piece->tensor.size_bytes) {
        ++next_tensor_;
        next_offset_ = 0;
      }
      if (piece->bytes != 0) return true;
    }
    return false;
  }

  void work() {
    try {
      ShardReader shard;
      std::vector<unsigned char> from_file(kPieceBytes);
      std::vector<unsigned char> from_device(kPieceBytes);
      Piece piece;
      while (take(&piece)) {
        shard.read(shards_[piece.tensor.shard], piece.tensor.file_offset + piece.offset,
                   piece.bytes, from_file.data());
        compare(piece, from_file, &from_device);
      }
      stop_if_interrupted();
      check(sluice_stream_forget(device_, kStreamPerThread));
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
  }

  void compare(const Piece &piece, const std::vector<unsigned char> &from_file,
               std::vector<unsigned char> *from_device) {
    check(sluice_copy_to_host(device_, addresses_[piece.index] + piece.offset, piece.bytes,
                              kStreamPerThread, from_device->data()));
    const uint64_t difference = first_difference(from_file, *from_device, piece.bytes);
    if (difference != kSame) {
      const std::scoped_lock lock(mutex_);
      uint64_t &first = differs_at_[piece.index];
      first = std::min(first, piece.offset + difference);
    }
    progress_.update(bytes_done_ += piece.bytes, bytes_total_);
  }

  VerifyResult summarize() const {
    VerifyResult result;
    result.tensors = addresses_.size();
    result.bytes = bytes_done_;
    for (uint64_t i = 0; i < differs_at_.size(); ++i) {
      if (differs_at_[i] == kSame) continue;
      if (++result.mismatched_tensors > kMostNames) continue;
      auto tensor = sized<sluice_tensor_info>();
      check(sluice_checkpoint_tensor(checkpoint_, i, &tensor));
      result.first_names.emplace_back(tensor.name);
      result.first_mismatches.push_back(fmt::format("{} from byte {} of {}", printable(tensor.name),
                                                    differs_at_[i], tensor.size_bytes));
    }
    return result;
  }

  sluice_checkpoint *checkpoint_;
  sluice_device *device_;
  const std::vector<uint64_t> &addresses_;
  std::vector<std::string> shards_;  // paths
  Progress progress_;
  uint64_t bytes_total_ = 0;
  std::atomic<uint64_t> bytes_done_{0};

  std::mutex mutex_;  // guards what follows
  uint64_t next_tensor_ = 0;
  uint64_t next_offset_ = 0;
  std::vector<uint64_t> differs_at_;  // per tensor: the first byte that differs
  std::exception_ptr failure_;
};

}  // namespace

VerifyResult verify_tensors(sluice_checkpoint *checkpoint, sluice_device *device,
                            const std::vector<uint64_t> &addresses) {
  return Verifier(checkpoint, device, addresses).run();
}

}  // namespace program

#include "tools/program/repack_verify.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <span>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/interrupt.h"
#include "tools/program/output.h"
#include "tools/program/owned_fd.h"
#include "tools/program/progress.h"

namespace program {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
constexpr size_t kMostNames = 10;
constexpr uint64_t kSame = UINT64_MAX;

Failure difference(const std::string &what) {
  return Failure("VERIFY_FAILED", "the new checkpoint differs: " + what);
}

std::set<std::pair<std::string, std::string>> all_metadata(const RepackSource &checkpoint) {
  std::set<std::pair<std::string, std::string>> all;
  for (const Metadata &metadata : checkpoint.metadata) all.insert(metadata.begin(), metadata.end());
  return all;
}

// One checkpoint's files and a buffer for a piece of a tensor.
class Side {
 public:
  explicit Side(const RepackSource &checkpoint) : paths_(checkpoint.shards), buffer_(kPieceBytes) {
    for (const std::string &path : paths_) {
      fds_.emplace_back(open_to_read(path));
      if (fds_.back().get() < 0) {
        throw system_failure(fmt::format("opening '{}' to verify it failed", path), "open", errno);
      }
    }
  }

  std::span<const unsigned char> read(const sluice_tensor_info &tensor, uint64_t offset,
                                      uint64_t bytes) {
    for (uint64_t done = 0; done < bytes;) {
      const int64_t count = read_at(fds_[tensor.shard].get(), buffer_.data() + done, bytes - done,
                                    tensor.file_offset + offset + done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) {
        const int error = count < 0 ? errno : EIO;
        throw system_failure(fmt::format("reading '{}' to verify it failed", paths_[tensor.shard]),
                             "pread", error);
      }
      done += static_cast<uint64_t>(count);
    }
    return {buffer_.data(), bytes};
  }

 private:
  const std::vector<std::string> &paths_;
  std::vector<OwnedFd> fds_;
  std::vector<unsigned char> buffer_;
};

class Comparison {
 public:
  Comparison(const RepackSource &source, const RepackSource &made)
      : source_(source), made_(made), old_side_(source), new_side_(made) {}

  VerifyResult run() {
    if (source_.tensors.size() != made_.tensors.size()) {
      throw difference(fmt::format("it has {}, not {}", counted(made_.tensors.size(), "tensor"),
                                   source_.tensors.size()));
    }
    if (all_metadata(source_) != all_metadata(made_)) throw difference("in its metadata");
    // In the new order: its data are read from beginning to end.
    for (const sluice_tensor_info &tensor : made_.tensors) compare(tensor);
    result_.tensors = made_.tensors.size();
    return std::move(result_);
  }

 private:
  const sluice_tensor_info &original_of(const sluice_tensor_info &tensor) const {
    uint64_t index = 0;
    if (sluice_checkpoint_find(source_.checkpoint.get(), tensor.name, &index) != SLUICE_OK) {
      throw difference(fmt::format("the original has no '{}'", printable(tensor.name)));
    }
    return source_.tensors[index];
  }

  void compare(const sluice_tensor_info &tensor) {
    const sluice_tensor_info &original = original_of(tensor);
    const std::span shape(tensor.shape, tensor.dimension_count);
    const std::span original_shape(original.shape, original.dimension_count);
    if (tensor.type != original.type || !std::ranges::equal(shape, original_shape)) {
      throw difference(fmt::format("type or shape of '{}'", printable(tensor.name)));
    }
    const uint64_t at = first_difference(tensor, original);
    result_.bytes += tensor.size_bytes;
    if (at == kSame || ++result_.mismatched_tensors > kMostNames) return;
    result_.first_names.emplace_back(tensor.name);
    result_.first_mismatches.push_back(
        fmt::format("{} from byte {} of {}", printable(tensor.name), at, tensor.size_bytes));
  }

  uint64_t first_difference(const sluice_tensor_info &tensor, const sluice_tensor_info &original) {
    for (uint64_t offset = 0; offset < tensor.size_bytes; offset += kPieceBytes) {
      stop_if_interrupted();
      const uint64_t bytes = std::min(kPieceBytes, tensor.size_bytes - offset);
      const auto a = new_side_.read(tensor, offset, bytes);
      const auto b = old_side_.read(original, offset, bytes);
      progress_.update(result_.bytes + offset + bytes, source_.data_bytes);
      if (std::ranges::equal(a, b)) continue;
      return offset + static_cast<uint64_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    }
    return kSame;
  }

  const RepackSource &source_;
  const RepackSource &made_;
  Side old_side_;
  Side new_side_;
  Progress progress_{"verifying"};
  VerifyResult result_;
};

}  // namespace

VerifyResult verify_repack(const RepackSource &source, const RepackSource &made) {
  const auto start = std::chrono::steady_clock::now();
  VerifyResult result = Comparison(source, made).run();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace program

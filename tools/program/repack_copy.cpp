#include "tools/program/repack_copy.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/interrupt.h"

namespace program {

TensorCopier::TensorCopier(const RepackSource &source) : source_(source) {
  for (const std::string &path : source.shards) {
    OwnedFd fd(open_to_read(path));
    const std::optional<FileState> state = fd.get() < 0 ? std::nullopt : state_of(fd.get());
    if (!state) throw system_failure(fmt::format("opening '{}' failed", path), "open", errno);
    will_read_in_order(fd.get());
    files_.push_back({std::move(fd), *state});
  }
}

void TensorCopier::copy(const RepackFile &plan, NewFile *target) {
  for (const Run &run : runs_of(plan)) copy_run(run, target);
}

void TensorCopier::check_sources() const {
  for (size_t i = 0; i < files_.size(); ++i) {
    const std::optional<FileState> now = state_of(files_[i].fd.get());
    const FileState &before = files_[i].state;
    if (now && now->bytes == before.bytes && now->written_at == before.written_at) continue;
    throw Failure(sluice_status_name(SLUICE_INVALID_STATE),
                  fmt::format("'{}' was written to while it was copied; nothing was kept",
                              source_.shards[i]));
  }
}

// Neighbours that stay neighbours are copied as one.
std::vector<TensorCopier::Run> TensorCopier::runs_of(const RepackFile &plan) const {
  std::vector<Run> runs;
  for (const RepackTensor &place : plan.tensors) {
    const sluice_tensor_info &tensor = source_.tensors[place.index];
    if (tensor.size_bytes == 0) continue;
    const Run next = {tensor.shard, tensor.file_offset, place.offset, tensor.size_bytes};
    if (!runs.empty() && runs.back().shard == next.shard &&
        runs.back().from + runs.back().bytes == next.from) {
      runs.back().bytes += next.bytes;
    } else {
      runs.push_back(next);
    }
  }
  return runs;
}

void TensorCopier::copy_run(Run run, NewFile *target) {
  while (run.bytes != 0) {
    stop_if_interrupted();
    uint64_t bytes = std::min(run.bytes, kCopyPieceBytes);
    if (const uint64_t copied = copy_by_system(run, bytes, *target); copied != 0) {
      bytes = copied;
    } else {
      copy_through_buffer(run, bytes, target);
    }
    run.from += bytes;
    run.to += bytes;
    run.bytes -= bytes;
    progress_.update(bytes_done_ += bytes, source_.data_bytes);
  }
}

uint64_t TensorCopier::copy_by_system(const Run &run, uint64_t bytes, const NewFile &target) {
  while (by_system_) {
    const int64_t count =
        copy_range(files_[run.shard].fd.get(), run.from, target.fd(), run.to, bytes);
    if (count > 0) return static_cast<uint64_t>(count);
    if (count == 0) return 0;  // the end of the file, which reading will name
    if (errno == EINTR) {
      stop_if_interrupted();
      continue;
    }
    if (errno != EOPNOTSUPP) {
      throw system_failure(
          fmt::format("copying '{}' to '{}' failed after {}; nothing of it was kept",
                      source_.shards[run.shard], target.path(), run.to),
          "copy_file_range", errno);
    }
    by_system_ = false;
  }
  return 0;
}

void TensorCopier::copy_through_buffer(const Run &run, uint64_t bytes, NewFile *target) {
  buffer_.resize(kCopyPieceBytes);
  uint64_t done = 0;
  while (done < bytes) {
    const int64_t count =
        read_at(files_[run.shard].fd.get(), buffer_.data() + done, bytes - done, run.from + done);
    if (count < 0 && errno == EINTR) continue;
    const std::string &path = source_.shards[run.shard];
    if (count < 0) throw system_failure(fmt::format("reading '{}' failed", path), "pread", errno);
    if (count == 0) {
      throw Failure(sluice_status_name(SLUICE_END_OF_FILE),
                    fmt::format("'{}' now ends at {}: it was truncated", path, run.from + done));
    }
    done += static_cast<uint64_t>(count);
  }
  target->write(buffer_.data(), bytes, run.to);
}

}  // namespace program

#include "io/read_call.h"

#include <algorithm>

#include "alloc/device_range.h"
#include "alloc/pinned_arenas.h"
#include "io/read_check.h"
#include "io/read_path.h"
#include "runtime/stream_key.h"

namespace sluice {
namespace {

// The files of a read, and for each the way that its bytes take.
struct FilePath {
  File *file;
  uint64_t first, end;
  ReadPath path;
};

// The index of the range's file. Ranges of one file mostly follow each other.
size_t path_of(std::vector<FilePath> &paths, const sluice_read_range &range) {
  File *file = range.file->file;
  const uint64_t end = range.file_offset + range.size_bytes;
  for (size_t i = paths.size(); i-- > 0;) {
    if (paths[i].file != file) continue;
    paths[i].first = std::min(paths[i].first, range.file_offset);
    paths[i].end = std::max(paths[i].end, end);
    return i;
  }
  paths.push_back({file, range.file_offset, end, {}});
  return paths.size() - 1;
}

PathTaken path_taken(const Reader &reader, const std::vector<FilePath> &paths) {
  PathTaken taken;
  bool by_worker = true;
  for (const FilePath &path : paths) {
    taken.direct |= path.path.direct;
    by_worker &= path.path.by_worker;
  }
  taken.uring = reader.uses_uring() && !by_worker;
  taken.reason = taken.uring || !reader.uses_uring()
                     ? reader.backend_reason()
                     : fmt::format("positioned reads on {} threads", reader.worker_count());
  taken.reason += "; " + paths.front().path.reason;
  if (paths.size() > 1) taken.reason += fmt::format(" (first of {} files)", paths.size());
  return taken;
}

// Checks a device destination and holds the buffer of ours that it lies in. Neighbouring ranges
// mostly go to the same one.
Status hold_target(Device &device, uint64_t address, uint64_t bytes, ReadJob &job) {
  const auto has = [&](const auto &target) {
    return address - target->address() < target->max_bytes();
  };
  const auto held = std::find_if(job.targets.rbegin(), job.targets.rend(), has);
  if (held != job.targets.rend()) return check_mapped(**held, address, bytes);
  job.targets.reserve(job.targets.size() + 1);
  SLUICE_ASSIGN(auto target, find_device_range(device, address, bytes));
  if (!target) return {};
  target->read_begins();
  job.targets.push_back(std::move(target));
  return {};
}

Status hold_targets(Device &device, std::span<const sluice_read_range> given, ReadJob &job) {
  for (size_t i = 0; i < given.size(); ++i) {
    const sluice_read_range &range = given[i];
    if (range.device_address == 0 || range.size_bytes == 0) continue;
    Status status = hold_target(device, range.device_address, range.size_bytes, job);
    if (!status.ok()) return std::move(status).with_context(range_name(given, i));
  }
  return {};
}

Result<std::vector<ReadRange>> decide_ranges(Device &device, Reader &reader,
                                             std::span<const sluice_read_range> given,
                                             ReadJob &job) {
  std::vector<FilePath> paths;
  std::vector<size_t> path_indices(given.size());
  for (size_t i = 0; i < given.size(); ++i) path_indices[i] = path_of(paths, given[i]);
  job.files.reserve(paths.size());
  for (FilePath &path : paths) {
    path.path = choose_path(*path.file, path.first, path.end - path.first);
    path.file->use_begins();
    job.files.push_back(path.file);
  }
  reader.set_path(path_taken(reader, paths));
  SLUICE_TRY(hold_targets(device, given, job));
  PinnedArenas *arenas = device.existing_part<PinnedArenas>();
  std::vector<ReadRange> ranges;
  ranges.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const sluice_read_range &range = given[i];
    const ReadPath &path = paths[path_indices[i]].path;
    auto *host = static_cast<std::byte *>(range.host_address);
    const bool pinned = host && arenas && arenas->contains(host, range.size_bytes);
    ranges.push_back({range.file->file, range.file_offset, range.size_bytes, range.device_address,
                      host, pinned, path.direct, path.by_worker, range.name});
  }
  return ranges;
}

}  // namespace

Result<std::unique_ptr<sluice_read>> start_read(Device &device,
                                                std::span<const sluice_read_range> given,
                                                CUstream stream) {
  SLUICE_TRY(identify_stream(device, stream).take_status());
  SLUICE_TRY(check_ranges(given));
  SLUICE_ASSIGN(Reader * reader, device.part<Reader>());
  auto read = std::make_unique<sluice_read>(device, *reader, stream);
  SLUICE_ASSIGN(const auto ranges, decide_ranges(device, *reader, given, read->job));
  SLUICE_TRY(reader->submit(read->job, ranges));
  return read;
}

Status finish_read(sluice_read &read) {
  if (!read.job.settled) {
    const DriverScope scope = DriverScope::insist(read.job.device);
    read.reader.wait(read.job, 0);
  }
  return read.job.status.copy();
}

}  // namespace sluice

sluice_read::~sluice_read() {
  if (job.settled || !job.submitted) return;
  const sluice::DriverScope scope = sluice::DriverScope::insist(job.device);
  reader.cancel(job);
  reader.wait(job, 0);
}

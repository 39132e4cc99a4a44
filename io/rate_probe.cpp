#include "io/rate_probe.h"

#include <algorithm>
#include <chrono>

#include "runtime/limits.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kRamBytes = 128 * kMiB;
constexpr int kRamRounds = 3;
// The first waves find out whether the disk is fast enough for larger ones.
constexpr uint64_t kDiskWaves[] = {32 * kMiB, 128 * kMiB, 256 * kMiB};
constexpr double kLongEnoughSeconds = 0.1;

struct Nobody final : ReadListener {
  void range_ended(ReadJob &, size_t, sluice_status) noexcept override {}
  void job_failed(ReadJob &) noexcept override {}
};

uint64_t pieces_of(const File &file, uint64_t slot) {
  return (file.size_bytes() + slot - 1) / slot;
}

struct Place {
  File *file;
  uint64_t offset;
};

// The piece with this number among those of all files.
Place place_of(const std::vector<File *> &files, uint64_t number, uint64_t slot) {
  for (File *file : files) {
    const uint64_t pieces = pieces_of(*file, slot);
    if (number < pieces) return {file, number * slot};
    number -= pieces;
  }
  return {nullptr, 0};
}

}  // namespace

Result<std::unique_ptr<RateProbe>> RateProbe::create(Device &device) {
  SLUICE_ASSIGN(Reader * reader, device.part<Reader>());
  std::unique_ptr<RateProbe> probe(new RateProbe(device, *reader));
  SLUICE_CUDA(device.driver(), cuStreamCreate, "a stream to measure with", &probe->stream_,
              CU_STREAM_NON_BLOCKING);
  SLUICE_TRY(probe->make_target());
  return probe;
}

Status RateProbe::make_target() {
  const uint64_t bytes = reader_.ring().slot_bytes();
  SLUICE_ASSIGN(target_, GrowableBuffer::create(device_, bytes));
  return target_->grow(bytes);
}

RateProbe::~RateProbe() {
  if (!stream_) return;
  wait_for_stream(device_, stream_);
  give_back(device_, "cuStreamDestroy", [&] { return device_.cuda().cuStreamDestroy(stream_); });
}

void RateProbe::add_piece(ReadPlan &plan, ReadPiece piece) const {
  piece.cached = true;
  piece.payload_bytes = piece.needed_bytes;
  piece.first_segment = static_cast<uint32_t>(plan.segments.size());
  piece.segment_count = 1;
  plan.segments.push_back({0, piece.needed_bytes, target_->address(), nullptr});
  plan.total_bytes += piece.needed_bytes;
  plan.pieces.push_back(piece);
}

Result<double> RateProbe::from_ram() {
  const uint64_t slot = reader_.ring().slot_bytes();
  SLUICE_ASSIGN(const HostMapping memory, HostMapping::create(device_.runtime(), kRamBytes, kMiB));
  double best = 0;
  for (int round = 0; round < kRamRounds; ++round) {
    ReadPlan plan;
    for (uint64_t offset = 0; offset < kRamBytes; offset += slot) {
      ReadPiece piece;
      piece.source = memory.data() + offset;
      piece.needed_bytes = static_cast<uint32_t>(std::min(slot, kRamBytes - offset));
      add_piece(plan, piece);
    }
    SLUICE_ASSIGN(const double took, seconds(std::move(plan), {}));
    best = std::max(best, static_cast<double>(kRamBytes) / took);
  }
  return best;
}

ReadPlan RateProbe::plan_disk(const std::vector<File *> &files, uint64_t pieces,
                              uint64_t wave) const {
  const uint64_t slot = reader_.ring().slot_bytes();
  uint64_t there = 0;
  for (const File *file : files) there += pieces_of(*file, slot);
  ReadPlan plan;
  pieces = std::min(pieces, there);
  for (uint64_t i = 0; i < pieces; ++i) {
    const uint64_t number = (i * there + wave * there / std::size(kDiskWaves)) / pieces % there;
    const auto [file, offset] = place_of(files, number, slot);
    ReadPiece piece;
    piece.file = file;
    piece.offset = offset;
    piece.needed_bytes = static_cast<uint32_t>(std::min(slot, file->size_bytes() - offset));
    piece.length_bytes = static_cast<uint32_t>((piece.needed_bytes + kDirectAlignment - 1) /
                                               kDirectAlignment * kDirectAlignment);
    piece.direct = file->direct() >= 0;
    piece.uncached = !piece.direct;
    if (piece.direct || file->cached_bytes(offset, piece.needed_bytes) == 0) add_piece(plan, piece);
  }
  return plan;
}

Result<double> RateProbe::from_disk(const std::vector<File *> &files) {
  const uint64_t slot = reader_.ring().slot_bytes();
  double best = 0;
  for (uint64_t wave = 0; wave < std::size(kDiskWaves); ++wave) {
    ReadPlan plan = plan_disk(files, std::max<uint64_t>(kDiskWaves[wave] / slot, 1), wave);
    if (plan.pieces.empty()) break;
    const auto bytes = static_cast<double>(plan.total_bytes);
    SLUICE_ASSIGN(const double took, seconds(std::move(plan), files));
    best = std::max(best, bytes / took);
    if (took > kLongEnoughSeconds) break;
  }
  return best;
}

// Until the last copy has ended.
Result<double> RateProbe::seconds(ReadPlan plan, const std::vector<File *> &files) {
  Nobody nobody;
  ReadJob job(device_, stream_, nobody);
  job.plan = std::move(plan);
  job.ranges.begin(job.plan, 0);
  job.files.reserve(files.size());
  for (File *file : files) {
    file->use_begins();
    job.files.push_back(file);
  }
  SLUICE_TRY(reader_.prepare(job));
  const auto start = Clock::now();
  reader_.submit(job);
  reader_.wait(job, 0);
  SLUICE_TRY(job.status.copy());
  SLUICE_CUDA(device_.driver(), cuStreamSynchronize, "measuring", stream_);
  return std::max(std::chrono::duration<double>(Clock::now() - start).count(), 1e-9);
}

}  // namespace sluice

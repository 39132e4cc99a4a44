#include "io/read_plan.h"

#include <algorithm>
#include <numeric>

#include "runtime/limits.h"

namespace sluice {
namespace {

// Reading over a gap of this size costs less than a read of its own.
constexpr uint64_t kMaxGap = 32 * kKiB;
// Host memory is read in pieces of this size, so that workers share a large range.
constexpr uint64_t kHostPiece = 4 * kMiB;

constexpr uint64_t align_down(uint64_t value) { return value - value % kDirectAlignment; }
constexpr uint64_t align_up(uint64_t value) { return align_down(value + kDirectAlignment - 1); }

class Planner {
 public:
  explicit Planner(uint64_t slot_bytes) : slot_bytes_(slot_bytes) {}

  void add(const ReadRange &range, uint32_t index) {
    plan_.total_bytes += range.bytes;
    plan_.range_order.push_back(index);
    plan_.names.push_back({range.offset + range.bytes, range.name});
    const bool straight = range.host && (range.device_address == 0 || range.host_pinned);
    straight ? add_straight(range) : add_through_slots(range);
  }
  ReadPlan take() { return std::move(plan_); }

 private:
  // The last piece, if `range` from `offset` on can join it.
  ReadPiece *joinable(const ReadRange &range, uint64_t offset) {
    if (plan_.pieces.empty()) return nullptr;
    ReadPiece &last = plan_.pieces.back();
    const uint64_t end = last.offset + last.needed_bytes;
    const bool fits = last.file == range.file && !last.host && last.direct == range.direct &&
                      offset >= last.offset && offset <= end + kMaxGap &&
                      offset < last.offset + slot_bytes_;
    return fits ? &last : nullptr;
  }

  ReadPiece *new_piece(const ReadRange &range, uint64_t offset) {
    ReadPiece piece;
    piece.file = range.file;
    piece.offset = offset;
    piece.direct = range.direct;
    piece.first_segment = static_cast<uint32_t>(plan_.segments.size());
    piece.first_range = current_range();
    piece.range_count = 1;
    plan_.pieces.push_back(piece);
    return &plan_.pieces.back();
  }

  uint32_t current_range() const { return static_cast<uint32_t>(plan_.range_order.size() - 1); }

  void add_segment(ReadPiece &piece, ReadSegment segment) {
    plan_.segments.push_back(segment);
    ++piece.segment_count;
  }

  void add_through_slots(const ReadRange &range) {
    uint64_t offset = range.offset;
    const uint64_t end = range.offset + range.bytes;
    while (offset < end) {
      ReadPiece *piece = joinable(range, offset);
      if (!piece) piece = new_piece(range, align_down(offset));
      const uint64_t stop = std::min(end, piece->offset + slot_bytes_);
      extend(*piece, range, offset, stop);
      offset = stop;
    }
  }

  void extend(ReadPiece &piece, const ReadRange &range, uint64_t offset, uint64_t stop) {
    const uint64_t reach = std::max(stop - piece.offset, uint64_t{piece.needed_bytes});
    piece.needed_bytes = static_cast<uint32_t>(reach);
    piece.length_bytes = static_cast<uint32_t>(align_up(reach));
    piece.payload_bytes += stop - offset;
    piece.range_count = current_range() - piece.first_range + 1;
    const uint64_t into = offset - range.offset;
    add_segment(piece,
                {static_cast<uint32_t>(offset - piece.offset), static_cast<uint32_t>(stop - offset),
                 range.device_address ? range.device_address + into : 0,
                 range.host ? range.host + into : nullptr});
  }

  // Direct where file offset and memory have the same alignment: then all but the edges is.
  void add_straight(const ReadRange &range) {
    const bool congruent =
        (reinterpret_cast<uintptr_t>(range.host) - range.offset) % kDirectAlignment == 0;
    const uint64_t end = range.offset + range.bytes;
    const bool direct = range.direct && congruent && align_up(range.offset) < align_down(end);
    if (!direct) return add_host_pieces(range, range.offset, end, false);
    add_host_pieces(range, range.offset, align_up(range.offset), false);
    add_host_pieces(range, align_up(range.offset), align_down(end), true);
    add_host_pieces(range, align_down(end), end, false);
  }

  void add_host_pieces(const ReadRange &range, uint64_t from, uint64_t end, bool direct) {
    while (from < end) {
      const uint64_t stop = std::min(end, align_down(from) + kHostPiece);
      ReadPiece &piece = *new_piece(range, from);
      piece.direct = direct;
      piece.needed_bytes = static_cast<uint32_t>(stop - from);
      piece.length_bytes = piece.needed_bytes;
      piece.payload_bytes = stop - from;
      piece.host = range.host + (from - range.offset);
      if (range.device_address)
        add_segment(piece,
                    {0, piece.needed_bytes, range.device_address + (from - range.offset), nullptr});
      from = stop;
    }
  }

  const uint64_t slot_bytes_;
  ReadPlan plan_;
};

// Neighbours of the device that are neighbours in the buffer too need one copy.
bool follows(const ReadSegment &before, const ReadSegment &after) {
  const bool device = before.device_address && after.device_address
                          ? before.device_address + before.bytes == after.device_address
                          : before.device_address == after.device_address;
  const bool host = before.host && after.host ? before.host + before.bytes == after.host
                                              : before.host == after.host;
  return before.buffer_offset + before.bytes == after.buffer_offset && device && host;
}

void merge_segments(ReadPlan &plan) {
  std::vector<ReadSegment> merged;
  merged.reserve(plan.segments.size());
  for (ReadPiece &piece : plan.pieces) {
    const auto first = static_cast<uint32_t>(merged.size());
    for (uint32_t i = 0; i < piece.segment_count; ++i) {
      const ReadSegment &segment = plan.segments[piece.first_segment + i];
      if (merged.size() > first && follows(merged.back(), segment))
        merged.back().bytes += segment.bytes;
      else
        merged.push_back(segment);
    }
    piece.first_segment = first;
    piece.segment_count = static_cast<uint32_t>(merged.size()) - first;
  }
  plan.segments = std::move(merged);
}

}  // namespace

const char *ReadPlan::name_at(const ReadPiece &piece, uint64_t offset) const noexcept {
  if (piece.range_count == 0) return nullptr;
  const auto first = names.begin() + piece.first_range, end = first + piece.range_count;
  const auto found =
      std::find_if(first, end, [&](const ReadName &each) { return each.end_offset > offset; });
  return (found == end ? first : found)->name;
}

ReadPlan plan_reads(std::span<const ReadRange> ranges, uint64_t slot_bytes) {
  std::vector<uint32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    if (ranges[a].file != ranges[b].file) return ranges[a].file < ranges[b].file;
    return ranges[a].offset < ranges[b].offset;
  });
  Planner planner(slot_bytes);
  for (const uint32_t index : order)
    if (ranges[index].bytes != 0) planner.add(ranges[index], index);
  ReadPlan plan = planner.take();
  merge_segments(plan);
  return plan;
}

}  // namespace sluice

#include "io/read_route.h"

#include <algorithm>

#include "runtime/limits.h"

namespace sluice {
namespace {

constexpr double kNearlyAll = 0.98;
constexpr double kNearlyNone = 0.02;
constexpr double kMostly = 0.5;

struct Sample {
  Residency residency = Residency::kUnknown;
  std::string text = "what is in the page cache can't be told";
};

Sample look(const File &file, uint64_t offset, uint64_t bytes) {
  const uint64_t cached = file.cached_bytes(offset, bytes);
  if (cached == UINT64_MAX) return {};
  const double fraction = static_cast<double>(cached) / static_cast<double>(bytes);
  Residency residency = Residency::kMixed;
  if (fraction >= kNearlyAll) residency = Residency::kAll;
  if (fraction <= kNearlyNone) residency = Residency::kNone;
  return {residency, fmt::format("{:.0f} % are in the page cache", fraction * 100)};
}

// Whether a piece's bytes are in the page cache. Small pieces share the answer for the window that
// they lie in.
class PieceResidency {
 public:
  bool cached(const FileRoute &route, const ReadPiece &piece) {
    if (route.residency != Residency::kMixed) return route.residency == Residency::kAll;
    if (piece.needed_bytes >= kWindow / 8)
      return mostly_cached(*piece.file, piece.offset, piece.needed_bytes);
    const uint64_t window = piece.offset / kWindow * kWindow;
    if (file_ != piece.file || window_ != window) {
      file_ = piece.file;
      window_ = window;
      const uint64_t end = std::min(window + kWindow, piece.file->size_bytes());
      answer_ = mostly_cached(*piece.file, window, end - window);
    }
    return answer_;
  }

 private:
  static constexpr uint64_t kWindow = 2 * kMiB;

  static bool mostly_cached(const File &file, uint64_t offset, uint64_t bytes) {
    const uint64_t cached = file.cached_bytes(offset, bytes);
    return cached != UINT64_MAX &&
           static_cast<double>(cached) >= kMostly * static_cast<double>(bytes);
  }

  const File *file_ = nullptr;
  uint64_t window_ = 0;
  bool answer_ = false;
};

}  // namespace

void choose_route(FileRoute &route) {
  File &file = *route.file;
  const Options &options = file.runtime().options();
  if (route.end == route.first) {
    route.reason = "nothing to read";
    return;
  }
  const Sample sample = look(file, route.first, route.end - route.first);
  route.residency = sample.residency;
  route.reason = sample.text;
  if (options.direct_io == SLUICE_OFF) {
    route.reason += "; buffered, as asked";
    return;
  }
  if (options.direct_io == SLUICE_ON) route.residency = Residency::kNone;
  if (route.residency == Residency::kAll) return;
  route.direct = file.direct() >= 0;
  route.uncached = true;
  const char *way = options.direct_io == SLUICE_ON ? "; direct, as asked: " : "; direct: ";
  route.reason += (route.direct ? way : "; buffered: ") + file.direct_reason();
}

void place_pieces(ReadPlan &plan, const std::vector<FileRoute> &routes) {
  PieceResidency residency;
  const FileRoute *route = nullptr;
  for (ReadPiece &piece : plan.pieces) {
    if (!route || route->file != piece.file)
      route = &*std::find_if(routes.begin(), routes.end(),
                             [&](const FileRoute &r) { return r.file == piece.file; });
    piece.cached = residency.cached(*route, piece);
    piece.direct &= !piece.cached;
    piece.uncached = route->uncached && !piece.cached && !piece.direct;
  }
  const auto cached = std::stable_partition(plan.pieces.begin(), plan.pieces.end(),
                                            [](const ReadPiece &piece) { return !piece.cached; });
  plan.disk_pieces = static_cast<size_t>(cached - plan.pieces.begin());
}

std::string describe_routes(const ReadPlan &plan, const std::vector<FileRoute> &routes) {
  uint64_t disk = 0, direct = 0;
  for (size_t i = 0; i < plan.disk_pieces; ++i) {
    disk += plan.pieces[i].payload_bytes;
    if (plan.pieces[i].direct) direct += plan.pieces[i].payload_bytes;
  }
  std::string text;
  const auto add = [&](uint64_t bytes, const char *how) {
    if (bytes != 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", format_size(bytes), how);
  };
  add(plan.total_bytes - disk, "from the page cache");
  add(direct, "direct from the disk");
  add(disk - direct, "buffered from the disk");
  if (!routes.empty()) text += "; " + routes.front().reason;
  if (routes.size() > 1) text += fmt::format(" (first of {} files)", routes.size());
  return text;
}

}  // namespace sluice

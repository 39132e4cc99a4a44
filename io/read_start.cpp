#include "io/read_start.h"

#include <algorithm>

#include "alloc/device_range.h"
#include "alloc/pinned_arenas.h"
#include "io/read_route.h"

namespace sluice {
namespace {

// The index of the range's file. Ranges of one file mostly follow each other.
size_t route_of(std::vector<FileRoute> &routes, const sluice_read_range &range) {
  File *file = range.file->file;
  const uint64_t end = range.file_offset + range.size_bytes;
  for (size_t i = routes.size(); i-- > 0;) {
    if (routes[i].file != file) continue;
    routes[i].first = std::min(routes[i].first, range.file_offset);
    routes[i].end = std::max(routes[i].end, end);
    return i;
  }
  FileRoute route;
  route.file = file;
  route.first = range.file_offset;
  route.end = end;
  routes.push_back(std::move(route));
  return routes.size() - 1;
}

PathTaken path_taken(const Reader &reader, const ReadPlan &plan,
                     const std::vector<FileRoute> &routes) {
  PathTaken taken;
  const Options &options = reader.device().runtime().options();
  const bool by_workers = plan.disk_pieces == 0 && options.io == SLUICE_IO_AUTO;
  taken.direct = std::any_of(plan.pieces.begin(), plan.pieces.end(),
                             [](const ReadPiece &piece) { return piece.direct; });
  taken.uring = reader.uses_uring() && !by_workers;
  taken.reason = taken.uring || !reader.uses_uring()
                     ? reader.backend_reason()
                     : fmt::format("positioned reads on {} threads", reader.worker_count());
  taken.reason += "; " + describe_routes(plan, routes);
  return taken;
}

// Checks a device destination and holds the buffer of ours that it lies in. Neighbouring ranges
// mostly go to the same one.
Status hold_target(Device &device, uint64_t address, uint64_t bytes, ReadJob &job) {
  const auto has = [&](const auto &target) { return target->has(address); };
  const auto held = std::find_if(job.targets.rbegin(), job.targets.rend(), has);
  if (held != job.targets.rend()) return check_mapped(**held, address, bytes);
  job.targets.reserve(job.targets.size() + 1);
  SLUICE_ASSIGN(auto target, find_device_range(device, address, bytes));
  if (!target) return {};
  target->read_begins();
  job.targets.push_back(std::move(target));
  return {};
}

Status hold_targets(Device &device, RangeList given, ReadJob &job) {
  for (size_t i = 0; i < given.size(); ++i) {
    const sluice_read_range &range = given[i];
    if (range.device_address == 0 || range.size_bytes == 0) continue;
    Status status = hold_target(device, range.device_address, range.size_bytes, job);
    if (!status.ok()) return std::move(status).with_context(range_name(given, i));
  }
  return {};
}

struct Routes {
  std::vector<FileRoute> files;
  std::vector<size_t> of_range;  // into files
};

Routes choose_routes(RangeList given, ReadJob &job) {
  Routes routes;
  routes.of_range.reserve(given.size());
  for (const sluice_read_range &range : given.ranges)
    routes.of_range.push_back(route_of(routes.files, range));
  job.files.reserve(routes.files.size());
  for (FileRoute &route : routes.files) {
    choose_route(route);
    route.file->use_begins();
    job.files.push_back(route.file);
  }
  return routes;
}

std::vector<ReadRange> to_ranges(Device &device, RangeList given, const Routes &routes) {
  PinnedArenas *arenas = device.existing_part<PinnedArenas>();
  std::vector<ReadRange> ranges;
  ranges.reserve(given.size());
  for (size_t i = 0; i < given.size(); ++i) {
    const sluice_read_range &range = given[i];
    auto *host = static_cast<std::byte *>(range.host_address);
    const bool pinned = host && arenas && arenas->contains(host, range.size_bytes);
    ranges.push_back({range.file->file, range.file_offset, range.size_bytes, range.device_address,
                      host, pinned, routes.files[routes.of_range[i]].direct, range.name});
  }
  return ranges;
}

}  // namespace

Status plan_job(Reader &reader, RangeList given, ReadJob &job) {
  Device &device = reader.device();
  const Routes routes = choose_routes(given, job);
  SLUICE_TRY(hold_targets(device, given, job));
  job.plan = plan_reads(to_ranges(device, given, routes), reader.ring().slot_bytes());
  place_pieces(job.plan, routes.files);
  job.ranges.begin(job.plan, given.size());
  reader.set_path(path_taken(reader, job.plan, routes.files));
  return {};
}

}  // namespace sluice

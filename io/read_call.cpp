#include "io/read_call.h"

#include <algorithm>

#include "alloc/device_range.h"
#include "alloc/pinned_arenas.h"
#include "io/read_check.h"
#include "io/read_route.h"
#include "runtime/stream_key.h"

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

Status hold_targets(Device &device, std::span<const sluice_read_range> given, ReadJob &job) {
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

Routes choose_routes(std::span<const sluice_read_range> given, ReadJob &job) {
  Routes routes;
  routes.of_range.reserve(given.size());
  for (const sluice_read_range &range : given)
    routes.of_range.push_back(route_of(routes.files, range));
  job.files.reserve(routes.files.size());
  for (FileRoute &route : routes.files) {
    choose_route(route);
    route.file->use_begins();
    job.files.push_back(route.file);
  }
  return routes;
}

std::vector<ReadRange> to_ranges(Device &device, std::span<const sluice_read_range> given,
                                 const Routes &routes) {
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

Result<sluice_read_urgency> to_urgency(uint32_t number) {
  if (number > SLUICE_READ_SPECULATIVE)
    return error(SLUICE_INVALID_ARGUMENT, "urgency is {}; 0 (demanded) and 1 (speculative) exist",
                 number);
  return static_cast<sluice_read_urgency>(number);
}

Status plan_job(Device &device, Reader &reader, std::span<const sluice_read_range> given,
                ReadJob &job) {
  const Routes routes = choose_routes(given, job);
  SLUICE_TRY(hold_targets(device, given, job));
  job.plan = plan_reads(to_ranges(device, given, routes), reader.ring().slot_bytes());
  place_pieces(job.plan, routes.files);
  reader.set_path(path_taken(reader, job.plan, routes.files));
  return {};
}

}  // namespace

Result<std::unique_ptr<sluice_read>> start_read(Device &device,
                                                std::span<const sluice_read_range> given,
                                                CUstream stream,
                                                const sluice_read_options &options) {
  SLUICE_ASSIGN(const sluice_read_urgency urgency, to_urgency(options.urgency));
  if (options.reserved != 0)
    return error(SLUICE_INVALID_ARGUMENT, "sluice_read_options: reserved is not 0");
  SLUICE_TRY(identify_stream(device, stream).take_status());
  SLUICE_TRY(check_ranges(given));
  SLUICE_ASSIGN(Reader * reader, device.part<Reader>());
  auto read = std::make_unique<sluice_read>(device, *reader, stream);
  read->job.urgency = urgency;
  read->job.timeout_ms = options.timeout_ms;
  SLUICE_TRY(plan_job(device, *reader, given, read->job));
  SLUICE_TRY(reader->submit(read->job));
  return read;
}

Status set_urgency(sluice_read &read, uint32_t urgency) {
  SLUICE_ASSIGN(const sluice_read_urgency known, to_urgency(urgency));
  read.reader.set_urgency(read.job, known);
  return {};
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

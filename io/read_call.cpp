#include "io/read_call.h"

#include <algorithm>

#include "io/read_start.h"
#include "runtime/limits.h"
#include "runtime/stream_key.h"

namespace sluice {
namespace {

// While this thread is inside a caller's on_range. The threads that call it are those that reads
// need, so waiting there could wait for ever.
thread_local bool inside_on_range = false;

Status refuse_inside_on_range() {
  if (!inside_on_range) return {};
  return error(SLUICE_BUSY, "on_range waits for a read that has not ended");
}

Result<sluice_read_urgency> to_urgency(uint32_t number) {
  if (number > SLUICE_READ_SPECULATIVE)
    return error(SLUICE_INVALID_ARGUMENT, "urgency is {}; 0 (demanded) and 1 (speculative) exist",
                 number);
  return static_cast<sluice_read_urgency>(number);
}

Status check_part(std::span<const sluice_read_part> parts, size_t index) {
  const sluice_read_part &part = parts[index];
  const auto missing = [index](const char *what) {
    return error(SLUICE_INVALID_ARGUMENT, "part {}: {} is NULL", index, what);
  };
  if (!part.device) return missing("device");
  if (!part.ranges) return missing("ranges");
  for (size_t i = 0; i < index; ++i)
    if (parts[i].device->device == part.device->device)
      return error(SLUICE_INVALID_ARGUMENT, "parts {} and {} are for the same device", i, index);
  return {};
}

Result<std::vector<RangeList>> check_parts(std::span<const sluice_read_part> parts) {
  std::vector<RangeList> lists;
  uint64_t count = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    SLUICE_TRY(check_part(parts, i));
    if (parts[i].count == 0 || parts[i].count > kMaxRanges - count)
      return error(SLUICE_INVALID_ARGUMENT,
                   "part {}: {} ranges after {}; 1 to {} in all are possible", i, parts[i].count,
                   count, kMaxRanges);
    lists.push_back({{parts[i].ranges, parts[i].count}, static_cast<size_t>(count)});
    count += parts[i].count;
  }
  return lists;
}

Status prepare_part(sluice_read &read, const sluice_read_part &part, RangeList ranges,
                    const sluice_read_options &options) {
  Device &device = *part.device->device;
  const CUstream stream = static_cast<CUstream>(part.stream);
  SLUICE_ASSIGN(auto scope, DriverScope::enter(device));
  SLUICE_TRY(identify_stream(device, stream).take_status());
  SLUICE_ASSIGN(Reader * reader, device.part<Reader>());
  auto job = std::make_unique<ReadJob>(device, stream, read);
  SLUICE_ASSIGN(job->urgency, to_urgency(options.urgency));
  job->timeout_ms = options.timeout_ms;
  // The read holds it from here on: a failure below takes its targets back in a driver scope.
  ReadJob &planned = *job;
  read.parts.push_back({reader, ranges.first_index, std::move(job)});
  SLUICE_TRY(plan_job(*reader, ranges, planned));
  return reader->prepare(planned);
}

void tell_of_empty_ranges(sluice_read &read, std::span<const RangeList> lists) noexcept {
  for (size_t part = 0; part < lists.size(); ++part)
    for (size_t i = 0; i < lists[part].size(); ++i)
      if (lists[part][i].size_bytes == 0) read.range_ended(*read.parts[part].job, i, SLUICE_OK);
}

sluice_read::Part &part_of_range(sluice_read &read, size_t range) noexcept {
  const auto after = std::upper_bound(
      read.parts.begin(), read.parts.end(), range,
      [](size_t index, const sluice_read::Part &part) { return index < part.first_range; });
  return *std::prev(after);
}

Status check_range_index(const sluice_read &read, size_t range) {
  if (range < read.range_count) return {};
  return error(SLUICE_INVALID_ARGUMENT, "there is no range {}: the read has {}", range,
               read.range_count);
}

bool has_ended(const sluice_read &read) {
  return std::all_of(read.parts.begin(), read.parts.end(), [](const sluice_read::Part &part) {
    return part.reader->finished(*part.job);
  });
}

// What went wrong first; parts that were cancelled for it don't count.
Status answer(const sluice_read &read) {
  const Status *found = nullptr;
  for (const sluice_read::Part &part : read.parts) {
    const Status &status = part.job->status;
    if (status.ok()) continue;
    if (!found || found->code() == SLUICE_CANCELLED) found = &status;
  }
  return found ? found->copy() : Status();
}

}  // namespace

Result<std::unique_ptr<sluice_read>> start_read(std::span<const sluice_read_part> parts,
                                                const sluice_read_options &options) {
  SLUICE_TRY(to_urgency(options.urgency).take_status());
  if (options.reserved != 0)
    return error(SLUICE_INVALID_ARGUMENT, "sluice_read_options: reserved is not 0");
  SLUICE_ASSIGN(const std::vector<RangeList> lists, check_parts(parts));
  SLUICE_TRY(check_ranges(lists));
  auto read = std::make_unique<sluice_read>(options);
  read->range_count = lists.back().first_index + lists.back().size();
  read->parts.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i)
    SLUICE_TRY(prepare_part(*read, parts[i], lists[i], options));
  if (read->on_range) tell_of_empty_ranges(*read, lists);
  for (const sluice_read::Part &part : read->parts) part.reader->submit(*part.job);
  return read;
}

ReadProgress read_progress(const sluice_read &read) noexcept {
  ReadProgress progress{};
  for (const sluice_read::Part &part : read.parts) {
    progress.done_bytes += part.job->done_bytes.load(std::memory_order_relaxed);
    progress.total_bytes += part.job->plan.total_bytes;
  }
  return progress;
}

Status set_urgency(sluice_read &read, uint32_t urgency) {
  SLUICE_ASSIGN(const sluice_read_urgency known, to_urgency(urgency));
  for (const sluice_read::Part &part : read.parts) part.reader->set_urgency(*part.job, known);
  return {};
}

void cancel_read(sluice_read &read) noexcept {
  for (const sluice_read::Part &part : read.parts) part.reader->cancel(*part.job);
}

bool may_release(const sluice_read &read) {
  if (!inside_on_range || has_ended(read)) return true;
  read.parts.front().job->device.log().write(
      SLUICE_LOG_ERROR, "io", "a read that has not ended is not released inside on_range");
  return false;
}

bool wait_for_read(sluice_read &read, uint32_t timeout_ms) {
  for (const sluice_read::Part &part : read.parts) {
    const DriverScope scope = DriverScope::insist(part.job->device);
    if (!part.reader->wait(*part.job, timeout_ms)) return false;
  }
  return true;
}

Status finish_read(sluice_read &read) {
  if (!has_ended(read)) SLUICE_TRY(refuse_inside_on_range());
  wait_for_read(read, 0);
  return answer(read);
}

Result<bool> range_arrived(sluice_read &read, size_t range) {
  SLUICE_TRY(check_range_index(read, range));
  const sluice_read::Part &part = part_of_range(read, range);
  return part.job->ranges.has_arrived(range - part.first_range);
}

Status wait_for_range(sluice_read &read, size_t range, CUstream stream) {
  SLUICE_TRY(check_range_index(read, range));
  const sluice_read::Part &part = part_of_range(read, range);
  const size_t index = range - part.first_range;
  SLUICE_ASSIGN(auto scope, DriverScope::enter(part.job->device));
  SLUICE_TRY(identify_stream(part.job->device, stream).take_status());
  if (!part.job->ranges.has_arrived(index)) {
    SLUICE_TRY(refuse_inside_on_range());
    if (!part.reader->wait_for_range(*part.job, index)) return finish_read(read);
  }
  return part.reader->order_behind(*part.job, index, stream);
}

}  // namespace sluice

sluice_read::~sluice_read() {
  sluice::cancel_read(*this);
  for (const Part &part : parts) {
    const sluice::DriverScope scope = sluice::DriverScope::insist(part.job->device);
    if (part.job->submitted) part.reader->wait(*part.job, 0);
    part.job->drop_targets();
  }
}

void sluice_read::range_ended(sluice::ReadJob &job, size_t range, sluice_status status) noexcept {
  if (!on_range) return;
  const auto part =
      std::find_if(parts.begin(), parts.end(), [&](const Part &p) { return p.job.get() == &job; });
  const bool before = std::exchange(sluice::inside_on_range, true);
  on_range(user, this, part->first_range + range, status);
  sluice::inside_on_range = before;
}

void sluice_read::job_failed(sluice::ReadJob &job) noexcept {
  for (const Part &part : parts)
    if (part.job.get() != &job) part.reader->cancel(*part.job);
}

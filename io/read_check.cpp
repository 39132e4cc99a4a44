#include "io/read_check.h"

#include <algorithm>
#include <vector>

#include "io/file.h"
#include "io/read_call.h"

namespace sluice {
namespace {

Status check_range(RangeList ranges, size_t index) {
  const sluice_read_range &range = ranges[index];
  if (!range.file || !range.file->file)
    return error(SLUICE_INVALID_ARGUMENT, "{} has no file", range_name(ranges, index));
  const File &file = *range.file->file;
  if (range.file_offset > file.size_bytes() ||
      range.size_bytes > file.size_bytes() - range.file_offset)
    return error(SLUICE_INVALID_ARGUMENT, "{}: {} bytes at {} pass the end of {}, which has {}",
                 range_name(ranges, index), range.size_bytes, range.file_offset, file.path(),
                 file.size_bytes());
  if (range.size_bytes != 0 && range.device_address == 0 && !range.host_address)
    return error(SLUICE_INVALID_ARGUMENT, "{} has neither a device nor a host address",
                 range_name(ranges, index));
  return {};
}

uint64_t device_destination(const sluice_read_range &range) { return range.device_address; }
uint64_t host_destination(const sluice_read_range &range) {
  return reinterpret_cast<uintptr_t>(range.host_address);
}

using Destination = uint64_t (*)(const sluice_read_range &);

bool has_destination(const sluice_read_range &range, Destination destination) {
  return range.size_bytes != 0 && destination(range) != 0;
}

// Ranges mostly come in the order of their addresses: then one pass will do.
bool ascending(RangeList ranges, Destination destination) {
  uint64_t end = 0;
  for (const sluice_read_range &range : ranges.ranges) {
    if (!has_destination(range, destination)) continue;
    if (destination(range) < end) return false;
    end = destination(range) + range.size_bytes;
  }
  return true;
}

Status check_overlaps(RangeList ranges, Destination destination, const char *side) {
  if (ascending(ranges, destination)) return {};
  std::vector<uint32_t> order;
  order.reserve(ranges.size());
  for (uint32_t i = 0; i < ranges.size(); ++i)
    if (has_destination(ranges[i], destination)) order.push_back(i);
  const auto begin = [&](uint32_t i) { return destination(ranges[i]); };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return begin(a) < begin(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint32_t before = order[i - 1], after = order[i];
    if (begin(after) - begin(before) < ranges[before].size_bytes)
      return error(SLUICE_INVALID_ARGUMENT, "{} and {} overlap at {} address {:#x}",
                   range_name(ranges, before), range_name(ranges, after), side, begin(after));
  }
  return {};
}

Status check_address(RangeList ranges, size_t index, uint64_t address) {
  uint64_t end = 0;
  if (!__builtin_add_overflow(address, ranges[index].size_bytes, &end)) return {};
  return error(SLUICE_INVALID_ARGUMENT, "{}: {} bytes at {:#x} pass the end of all addresses",
               range_name(ranges, index), ranges[index].size_bytes, address);
}

}  // namespace

std::string range_name(RangeList ranges, size_t index) {
  const char *name = ranges[index].name;
  const size_t number = ranges.first_index + index;
  return name ? fmt::format("range {} ('{}')", number, name) : fmt::format("range {}", number);
}

Status check_ranges(std::span<const RangeList> lists) {
  std::vector<sluice_read_range> all;
  for (const RangeList &ranges : lists) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      SLUICE_TRY(check_range(ranges, i));
      SLUICE_TRY(check_address(ranges, i, device_destination(ranges[i])));
      SLUICE_TRY(check_address(ranges, i, host_destination(ranges[i])));
    }
    SLUICE_TRY(check_overlaps(ranges, device_destination, "device"));
    if (lists.size() > 1) all.insert(all.end(), ranges.ranges.begin(), ranges.ranges.end());
  }
  return check_overlaps(lists.size() > 1 ? RangeList{all} : lists[0], host_destination, "host");
}

}  // namespace sluice

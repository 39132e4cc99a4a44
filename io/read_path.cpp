#include "io/read_path.h"

namespace sluice {
namespace {

struct Residency {
  bool known = false;
  double fraction = 0;
  std::string text() const {
    return known ? fmt::format("{:.0f} % are in the page cache", fraction * 100)
                 : std::string("what is in the page cache can't be told");
  }
};

Residency residency(const File &file, uint64_t offset, uint64_t bytes) {
  const uint64_t cached = file.cached_bytes(offset, bytes);
  if (cached == UINT64_MAX) return {};
  return {true, static_cast<double>(cached) / static_cast<double>(bytes)};
}

}  // namespace

ReadPath choose_path(File &file, uint64_t offset, uint64_t bytes) {
  constexpr double kMostlyCached = 0.5;
  const Options &options = file.runtime().options();
  if (bytes == 0) return {false, true, "nothing to read"};
  const Residency where = residency(file, offset, bytes);
  const bool cached = where.known && where.fraction >= kMostlyCached;
  const bool by_worker = cached && options.io == SLUICE_IO_AUTO;
  if (options.direct_io == SLUICE_OFF)
    return {false, by_worker, "buffered, as asked; " + where.text()};
  if (options.direct_io == SLUICE_AUTO && cached)
    return {false, by_worker, "buffered: " + where.text()};
  if (file.direct() < 0)
    return {false, by_worker, fmt::format("buffered: {}; {}", where.text(), file.direct_reason())};
  if (options.direct_io == SLUICE_ON) return {true, false, "direct, as asked; " + where.text()};
  return {true, false, fmt::format("direct: {}; {}", where.text(), file.direct_reason())};
}

}  // namespace sluice

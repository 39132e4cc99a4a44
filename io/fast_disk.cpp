#include "io/fast_disk.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/options.h"

namespace sluice {

FastDiskAnswer decide_fast_disk(const FastDiskQuestion &question) {
  if (question.asked == SLUICE_ON) return {true, false, "as asked"};
  if (question.asked == SLUICE_OFF) return {false, false, "as asked"};
  const std::string model = format_size(question.model_bytes);
  const std::string room = format_size(question.ram_room_bytes);
  if (question.model_bytes > question.ram_room_bytes)
    return {true, false,
            fmt::format("{} of weights don't fit into {} of RAM above the floor", model, room)};
  if (!question.rates) return {false, true, "not measured yet"};
  const auto [disk, ram] = *question.rates;
  if (disk == 0)
    return {false, false,
            fmt::format("{} of weights fit into {} of RAM; the disk can't be measured: the page "
                        "cache has the files, and can't be read around",
                        model, room)};
  const bool on = disk >= ram;
  return {on, false,
          fmt::format("{} of weights fit into {} of RAM; the disk gives {:.1f} GB/s, {} than the "
                      "{:.1f} of RAM that isn't pinned",
                      model, room, disk / 1e9, on ? "no less" : "less", ram / 1e9)};
}

std::optional<SourceRates> FastDisk::rates(uint32_t device) const {
  const std::lock_guard lock(mutex_);
  for (const Measured &measured : measured_)
    if (measured.device == device) return measured.rates;
  return std::nullopt;
}

void FastDisk::set_rates(uint32_t device, SourceRates rates) {
  const std::lock_guard lock(mutex_);
  measured_.push_back({device, rates});
}

void FastDisk::note(const Log &log, const std::string &model, const FastDiskAnswer &answer) {
  std::optional<bool> before = answer.on;
  {
    const std::lock_guard lock(mutex_);
    std::swap(before, answered_);
  }
  const char *now = answer.on ? "on" : "off";
  if (!before)
    log.write(SLUICE_LOG_INFO, "io", "{}: fast disk {}: {}", model, now, answer.reason);
  else if (*before != answer.on)
    log.write(SLUICE_LOG_WARNING, "io", "{}: fast disk is {} now: {}", model, now, answer.reason);
}

}  // namespace sluice

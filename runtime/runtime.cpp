#include "runtime/runtime.h"

#include <algorithm>

#include "runtime/device.h"
#include "runtime/limits.h"

namespace sluice {

PinnedLimit default_pinned_limit(const SystemFacts &facts) {
  PinnedLimit limit;
  uint64_t available = facts.ram_available_bytes;
  uint64_t floor = kRamFloorBytes;
  const char *whose = "RAM of the machine";
  if (facts.container_limit_bytes != UINT64_MAX) {
    const uint64_t used = std::min(facts.container_used_bytes, facts.container_limit_bytes);
    floor = std::min(floor, facts.container_limit_bytes / 4);
    if (facts.container_limit_bytes - used < available) {
      available = facts.container_limit_bytes - used;
      whose = "memory of the container";
    }
  }
  limit.bytes = available > floor ? available - floor : 0;
  limit.reason = fmt::format("{} of available {} less a floor of {}", format_size(available), whose,
                             format_size(floor));
  return limit;
}

Runtime::Runtime(Options options, SystemFacts facts, PinnedLimit limit, const Driver *driver)
    : options_(std::move(options)),
      facts_(std::move(facts)),
      pinned_reason_(std::move(limit.reason)),
      driver_(driver),
      log_(options_.log_level, options_.log_function, options_.log_user),
      pinned_(limit.bytes) {}

Result<std::unique_ptr<Runtime>> Runtime::create(const sluice_options *given) {
  SLUICE_ASSIGN(Options options, resolve_options(given));
  const Driver *driver = nullptr;
  if (options.driver != "none") {
    SLUICE_ASSIGN(driver, Driver::open(options.driver));
  }
  SystemFacts facts = system_facts();
  PinnedLimit limit = options.pinned_limit ? PinnedLimit{options.pinned_limit, "set by the user"}
                                           : default_pinned_limit(facts);
  std::unique_ptr<Runtime> runtime(
      new Runtime(std::move(options), std::move(facts), std::move(limit), driver));
  if (driver)
    runtime->log_.write(SLUICE_LOG_INFO, "driver", "{} {}.{}{}", driver->path(),
                        driver->version() / 1000, driver->version() % 1000 / 10,
                        driver->emulated() ? " (emulated)" : "");
  runtime->log_.write(SLUICE_LOG_INFO, "budget", "pinned memory up to {}: {}",
                      format_size(runtime->pinned_.limit()), runtime->pinned_reason_);
  return runtime;
}

Runtime::~Runtime() = default;

void Runtime::set_pinned_limit(uint64_t bytes, std::string reason) {
  const std::lock_guard lock(pinned_mutex_);
  pinned_reason_ = std::move(reason);
  pinned_.set_limit(bytes);
}

Result<Device *> Runtime::open_device(uint32_t ordinal) {
  if (!driver_)
    return error(SLUICE_INVALID_STATE, "the runtime was made with driver 'none': it has no GPUs");
  const std::lock_guard lock(devices_mutex_);
  const auto found = devices_.find(ordinal);
  if (found != devices_.end()) {
    ++found->second.opens;
    return found->second.device.get();
  }
  SLUICE_ASSIGN(auto device, Device::open(*this, ordinal));
  Device *result = device.get();
  devices_[ordinal] = {std::move(device), 1};
  children_.opened(ChildKind::kDevice);
  return result;
}

Status Runtime::close_device(Device *device) {
  const std::lock_guard lock(devices_mutex_);
  const auto found = devices_.find(device->ordinal());
  if (found->second.opens > 1) {
    --found->second.opens;
    return {};
  }
  if (const std::string open = device->children().names(); !open.empty())
    return error(SLUICE_BUSY, "GPU {} is still in use: {}", device->ordinal(), open);
  SLUICE_TRY(device->close_parts());
  devices_.erase(found);
  children_.closed(ChildKind::kDevice);
  return {};
}

void Runtime::fill_vram_stats(sluice_stats *stats) const {
  const std::lock_guard lock(devices_mutex_);
  for (const auto &[ordinal, open] : devices_) {
    stats->vram_bytes += open.device->vram().used();
    stats->vram_peak_bytes += open.device->vram().peak();
  }
}

}  // namespace sluice

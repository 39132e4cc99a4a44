// The root object: options, log, counters, the driver, the pinned budget and the open devices.
//
// Threads: any. What was opened in it counts as a child; it is destroyed only without children.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/budget.h"
#include "runtime/children.h"
#include "runtime/counters.h"
#include "runtime/driver_table.h"
#include "runtime/log.h"
#include "runtime/options.h"
#include "runtime/os.h"
#include "runtime/status.h"

namespace sluice {

class Device;

struct PinnedLimit {
  uint64_t bytes = 0;
  std::string reason;
};
// The cap on pinned memory from what the machine and its container have left (R17's floor).
PinnedLimit default_pinned_limit(const SystemFacts &facts);

class Runtime {
 public:
  static Result<std::unique_ptr<Runtime>> create(const sluice_options *options);
  ~Runtime();
  Runtime(const Runtime &) = delete;
  Runtime &operator=(const Runtime &) = delete;

  const Options &options() const noexcept { return options_; }
  const Log &log() const noexcept { return log_; }
  Counters &counters() noexcept { return counters_; }
  Budget &pinned() noexcept { return pinned_; }
  const SystemFacts &facts() const noexcept { return facts_; }
  std::string pinned_reason() const {
    const std::lock_guard lock(pinned_mutex_);
    return pinned_reason_;
  }
  void set_pinned_limit(uint64_t bytes, std::string reason);
  const Driver *driver() const noexcept { return driver_; }  // null with driver "none"

  Result<Device *> open_device(uint32_t ordinal);
  Status close_device(Device *device);
  // VRAM over all devices.
  void fill_vram_stats(sluice_stats *stats) const;

  Children &children() noexcept { return children_; }

 private:
  Runtime(Options options, SystemFacts facts, PinnedLimit limit, const Driver *driver);

  struct OpenDevice {
    std::unique_ptr<Device> device;
    uint32_t opens = 0;
  };

  const Options options_;
  const SystemFacts facts_;
  mutable std::mutex pinned_mutex_;
  std::string pinned_reason_;
  const Driver *const driver_;
  Log log_;
  Counters counters_;
  Budget pinned_;
  Children children_;
  mutable std::mutex devices_mutex_;
  std::map<uint32_t, OpenDevice> devices_;
};

}  // namespace sluice

struct sluice_runtime {
  std::unique_ptr<sluice::Runtime> runtime;
};

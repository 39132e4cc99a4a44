// Whether bytes of weights that have no pin stay in RAM, or may go and are read from disk again
// (--fast-disk): a pure function of what is known, and the answer that a checkpoint has got.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/log.h"
#include "runtime/sluice.h"

namespace sluice {

// Bytes per second to the device, through the ring.
struct SourceRates {
  double disk = 0;  // 0: can't be measured
  double ram = 0;   // from memory that isn't pinned
};

struct FastDiskQuestion {
  sluice_switch asked = SLUICE_AUTO;
  uint64_t model_bytes = 0;
  uint64_t ram_room_bytes = 0;       // available RAM above the floor
  std::optional<SourceRates> rates;  // absent: not measured yet
};

struct FastDiskAnswer {
  bool on = false;
  bool needs_rates = false;  // ask again with them
  std::string reason;
};

FastDiskAnswer decide_fast_disk(const FastDiskQuestion &question);

// What has been measured and answered so far for one checkpoint. Threads: any.
class FastDisk {
 public:
  // Of a device, by its ordinal.
  std::optional<SourceRates> rates(uint32_t device) const;
  void set_rates(uint32_t device, SourceRates rates);
  // Says in the log what the answer is at first, and when it is another one.
  void note(const Log &log, const std::string &model, const FastDiskAnswer &answer);

 private:
  struct Measured {
    uint32_t device;
    SourceRates rates;
  };
  mutable std::mutex mutex_;
  std::vector<Measured> measured_;
  std::optional<bool> answered_;
};

}  // namespace sluice

// A runtime and a device on the emulated driver, through the public interface.
#pragma once

#include <string>

#include "runtime/sluice.h"
#include "tests/support/emulator.h"

namespace support {

inline std::string last_error() {
  sluice_error error = SLUICE_ERROR_INIT;
  sluice_error_get(&error);
  return std::string(sluice_status_name(static_cast<sluice_status>(error.status))) + ": " +
         error.message;
}

inline sluice_options emulated_options() {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.driver = SLUICE_EMULATED_DRIVER_PATH;
  options.log_level = SLUICE_LOG_OFF;
  return options;
}

class Session {
 public:
  explicit Session(const sluice_options &options = emulated_options(), uint32_t ordinal = 0) {
    status_ = sluice_runtime_create(&options, &runtime);
    if (status_ == SLUICE_OK) status_ = sluice_device_open(runtime, ordinal, &device);
  }
  ~Session() {
    sluice_device_close(device);
    sluice_runtime_destroy(runtime);
  }
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;
  sluice_status status() const { return status_; }
  sluice_stats stats() const {
    sluice_stats stats{};
    stats.struct_size = sizeof stats;
    sluice_stats_get(runtime, &stats);
    return stats;
  }

  sluice_runtime *runtime = nullptr;
  sluice_device *device = nullptr;

 private:
  sluice_status status_;
};

}  // namespace support

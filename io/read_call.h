// A public read, from its ranges to its end: checks them, decides which way each file's bytes
// take, and hands the job to the device's readers.
#pragma once

#include <memory>
#include <span>

#include "io/reader.h"

// Dropping it cancels what has not begun and waits for the rest.
struct sluice_read {
  sluice_read(sluice::Device &device, sluice::Reader &readers, CUstream stream)
      : job(device, stream), reader(readers) {}
  ~sluice_read();
  sluice_read(const sluice_read &) = delete;
  sluice_read &operator=(const sluice_read &) = delete;

  sluice::ReadJob job;
  sluice::Reader &reader;
};

namespace sluice {

// Needs the device's context current. `options` are checked here.
Result<std::unique_ptr<sluice_read>> start_read(Device &device,
                                                std::span<const sluice_read_range> ranges,
                                                CUstream stream,
                                                const sluice_read_options &options);
Status set_urgency(sluice_read &read, uint32_t urgency);
// Waits for its end and gives its answer.
Status finish_read(sluice_read &read);

}  // namespace sluice

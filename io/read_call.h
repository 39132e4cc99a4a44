// A public read, from its ranges to its end: checks them, decides which way each file's bytes
// take, and hands the job to the device's readers.
#pragma once

#include <memory>
#include <span>

#include "io/reader.h"

struct sluice_read {
  std::unique_ptr<sluice::ReadJob> job;
  sluice::Reader *reader = nullptr;
};

namespace sluice {

// Needs the device's context current.
Result<std::unique_ptr<sluice_read>> start_read(Device &device,
                                                std::span<const sluice_read_range> ranges,
                                                CUstream stream);
// Waits for its end and gives its answer.
Status finish_read(sluice_read &read);
// Cancels what has not begun, and waits; nothing when it has been waited for.
void abandon_read(sluice_read &read) noexcept;

}  // namespace sluice

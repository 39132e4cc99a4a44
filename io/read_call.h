// A public read: one job for each device, waited for and answered as one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "io/reader.h"

// Dropping it cancels what has not begun and waits for the rest.
struct sluice_read final : sluice::ReadListener {
  struct Part {
    sluice::Reader *reader;
    size_t first_range;  // its index among the ranges of all parts
    std::unique_ptr<sluice::ReadJob> job;
  };

  explicit sluice_read(const sluice_read_options &options) noexcept
      : on_range(options.on_range), user(options.user) {}
  ~sluice_read();
  sluice_read(const sluice_read &) = delete;
  sluice_read &operator=(const sluice_read &) = delete;

  void range_ended(sluice::ReadJob &job, size_t range, sluice_status status) noexcept override;
  void job_failed(sluice::ReadJob &job) noexcept override;

  const sluice_read_range_function on_range;
  void *const user;
  std::vector<Part> parts;
  size_t range_count = 0;
};

namespace sluice {

// The options are checked here. Nothing was begun, and nobody told, where it fails.
Result<std::unique_ptr<sluice_read>> start_read(std::span<const sluice_read_part> parts,
                                                const sluice_read_options &options);

struct ReadProgress {
  uint64_t done_bytes;
  uint64_t total_bytes;
};
ReadProgress read_progress(const sluice_read &read) noexcept;
Status set_urgency(sluice_read &read, uint32_t urgency);
void cancel_read(sluice_read &read) noexcept;
// False, with a line in the log: inside on_range it would wait for ever.
bool may_release(const sluice_read &read);

// False when `timeout_ms` passed before its end; 0 waits on.
bool wait_for_read(sluice_read &read, uint32_t timeout_ms);
// Waits for its end and gives its answer.
Status finish_read(sluice_read &read);
Result<bool> range_arrived(sluice_read &read, size_t range);
// Waits for the range and orders `stream` behind its copies.
Status wait_for_range(sluice_read &read, size_t range, CUstream stream);

}  // namespace sluice

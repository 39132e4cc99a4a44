// One line on stderr that tells how far a long command is; only on a terminal. Threads: any.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace program {

class Progress {
 public:
  explicit Progress(const char *verb);
  ~Progress();
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  // Draws at most ten times a second.
  void update(uint64_t bytes_done, uint64_t bytes_total);
  // Wipes the line. Nothing is drawn afterwards.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void draw(uint64_t bytes_done, uint64_t bytes_total, double seconds) const;

  const char *verb_;
  Clock::time_point start_;
  Clock::time_point next_;
  std::mutex mutex_;
  bool active_;
};

// Writes a line to stderr; a progress bar that stands there gives way and comes again.
void print_beside_progress(const char *line);

}  // namespace program

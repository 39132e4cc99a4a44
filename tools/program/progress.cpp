#include "tools/program/progress.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "tools/program/output.h"
#include "tools/program/system.h"

namespace program {
namespace {

constexpr int kBarWidth = 28;
constexpr size_t kDefaultColumns = 80;
constexpr std::chrono::milliseconds kInterval{100};
constexpr const char *kWipe = "\r\x1b[K";

std::atomic<bool> line_is_drawn{false};

size_t line_columns() {
  const size_t columns = terminal_columns();
  return columns == 0 ? kDefaultColumns : columns;
}

}  // namespace

Progress::Progress(const char *verb)
    : verb_(verb), start_(Clock::now()), next_(start_ + kInterval), active_(stderr_is_terminal()) {}

Progress::~Progress() { finish(); }

void Progress::update(uint64_t bytes_done, uint64_t bytes_total) {
  if (!active_) return;
  const std::scoped_lock lock(mutex_);
  const auto now = Clock::now();
  if (!active_ || now < next_) return;
  next_ = now + kInterval;
  draw(bytes_done, bytes_total, std::chrono::duration<double>(now - start_).count());
}

void Progress::finish() {
  const std::scoped_lock lock(mutex_);
  active_ = false;
  if (line_is_drawn.exchange(false)) write_stderr(kWipe);
}

void Progress::draw(uint64_t bytes_done, uint64_t bytes_total, double seconds) const {
  const double part =
      bytes_total == 0
          ? 1.0
          : std::min(1.0, static_cast<double>(bytes_done) / static_cast<double>(bytes_total));
  const int filled = static_cast<int>(part * kBarWidth);
  std::string line =
      fmt::format("{} {:3.0f}% [{:#<{}}{:<{}}] {} of {}, {:.2f} GB/s", verb_, part * 100, "",
                  filled, "", kBarWidth - filled, human_size(bytes_done), human_size(bytes_total),
                  gigabytes_per_second(bytes_done, seconds));
  line.resize(std::min(line.size(), line_columns() - 1));
  write_stderr(kWipe + line);
  line_is_drawn.store(true);
}

void print_beside_progress(const char *line) {
  const char *wipe = line_is_drawn.exchange(false) ? kWipe : "";
  write_stderr(fmt::format("{}{}\n", wipe, line));
}

}  // namespace program

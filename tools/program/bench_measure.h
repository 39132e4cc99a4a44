// What `sluice bench` does with everything it compares: candidates for the same work take turns,
// each sample in wall-clock and processor seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace program {

struct BenchSample {
  double seconds = 0;
  double processor_seconds = 0;  // of the whole process
};

class Stopwatch {
 public:
  Stopwatch();
  [[nodiscard]] BenchSample read() const;

 private:
  std::chrono::steady_clock::time_point start_;
  double processor_start_;
};

struct BenchCandidate {
  std::string how;
  bool sluice = false;
  bool required = false;  // the run fails with it
  std::function<BenchSample()> run;
  std::function<void()> before_check;  // with --verify: spoils the destination
  std::function<void()> check;         // with --verify: throws Failure unless the bytes are there
};

struct BenchWork {
  std::string name;
  uint64_t bytes = 0;             // that each candidate moves in a sample
  bool warm_up = true;            // an uncounted sample first
  std::function<void()> prepare;  // before each sample; may be empty
  std::vector<BenchCandidate> candidates;
};

struct BenchRow {
  std::string work;
  std::string how;
  bool sluice = false;
  uint64_t bytes = 0;
  std::vector<BenchSample> samples;  // never empty

  [[nodiscard]] double seconds() const;  // the median
  [[nodiscard]] double least_seconds() const;
  [[nodiscard]] double most_seconds() const;
  [[nodiscard]] double gb_per_s() const;
  [[nodiscard]] double processor_s_per_gb() const;
};

// A candidate that fails leaves, unless it is required: what it said is added to `notes`, and its
// samples so far count. Throws Failure.
[[nodiscard]] std::vector<BenchRow> measure(const BenchWork &work, unsigned rounds, bool verify,
                                            std::vector<std::string> *notes);

// Runs `body(thread)` on as many threads; the first exception is thrown again here.
void on_threads(unsigned count, const std::function<void(unsigned)> &body);

// Calls `move(thread, offset, bytes)` for all pieces of `bytes`, on threads that take turns.
using PieceMover = std::function<void(unsigned thread, uint64_t offset, uint64_t bytes)>;
void move_pieces(unsigned threads, uint64_t bytes, uint64_t piece_bytes, const PieceMover &move);

// 1, 2, 4, 8, 16 as far as there are processors, and 4 at least.
[[nodiscard]] std::vector<unsigned> thread_counts();

}  // namespace program

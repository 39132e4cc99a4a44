#include "tools/program/bench_measure.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/interrupt.h"
#include "tools/program/system.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

double median(const std::vector<BenchSample> &samples, double BenchSample::*part) {
  std::vector<double> values;
  for (const BenchSample &sample : samples) values.push_back(sample.*part);
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

bool faster(const BenchSample &a, const BenchSample &b) { return a.seconds < b.seconds; }

// The candidates of one work, and what is left of them.
class Contest {
 public:
  Contest(const BenchWork &work, std::vector<std::string> *notes)
      : work_(work),
        notes_(notes),
        samples_(work.candidates.size()),
        left_(samples_.size(), true) {}

  void verify() {
    for (size_t i = 0; i < samples_.size(); ++i) {
      const BenchCandidate &candidate = work_.candidates[i];
      if (!candidate.check) continue;
      candidate.before_check();
      if (work_.prepare) work_.prepare();
      static_cast<void>(candidate.run());
      candidate.check();
    }
  }

  // The first of a round is another one each time: none has always the same before it.
  void round(unsigned number, bool counts) {
    for (size_t i = 0; i < samples_.size(); ++i) {
      const size_t index = (i + number) % samples_.size();
      if (left_[index]) sample(index, counts);
    }
  }

  std::vector<BenchRow> rows() {
    std::vector<BenchRow> rows;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const BenchCandidate &candidate = work_.candidates[i];
      if (samples_[i].empty()) continue;
      rows.push_back(
          {work_.name, candidate.how, candidate.sluice, work_.bytes, std::move(samples_[i])});
    }
    return rows;
  }

 private:
  void sample(size_t index, bool counts) {
    const BenchCandidate &candidate = work_.candidates[index];
    stop_if_interrupted();
    if (work_.prepare) work_.prepare();
    try {
      const BenchSample sample = candidate.run();
      if (counts) samples_[index].push_back(sample);
    } catch (const Failure &failure) {
      if (candidate.required || interrupted() != 0) throw;
      notes_->push_back(fmt::format("{}, {}: left out after {} rounds: {}", work_.name,
                                    candidate.how, samples_[index].size(), failure.what()));
      left_[index] = false;
    }
  }

  const BenchWork &work_;
  std::vector<std::string> *notes_;
  std::vector<std::vector<BenchSample>> samples_;
  std::vector<bool> left_;
};

}  // namespace

Stopwatch::Stopwatch() : start_(Clock::now()), processor_start_(processor_seconds()) {}

BenchSample Stopwatch::read() const {
  return {std::chrono::duration<double>(Clock::now() - start_).count(),
          processor_seconds() - processor_start_};
}

double BenchRow::seconds() const { return median(samples, &BenchSample::seconds); }

double BenchRow::least_seconds() const {
  return std::min_element(samples.begin(), samples.end(), faster)->seconds;
}

double BenchRow::most_seconds() const {
  return std::max_element(samples.begin(), samples.end(), faster)->seconds;
}

double BenchRow::gb_per_s() const {
  return seconds() > 0 ? static_cast<double>(bytes) / seconds() / 1e9 : 0;
}

double BenchRow::processor_s_per_gb() const {
  return median(samples, &BenchSample::processor_seconds) / (static_cast<double>(bytes) / 1e9);
}

std::vector<BenchRow> measure(const BenchWork &work, unsigned rounds, bool verify,
                              std::vector<std::string> *notes) {
  Contest contest(work, notes);
  if (verify) contest.verify();
  if (work.warm_up) contest.round(0, false);
  for (unsigned i = 0; i < rounds; ++i) contest.round(i, true);
  return contest.rows();
}

void on_threads(unsigned count, const std::function<void(unsigned)> &body) {
  std::mutex mutex;
  std::exception_ptr first;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          const std::scoped_lock lock(mutex);
          if (!first) first = std::current_exception();
        }
      });
    }
  }
  if (first) std::rethrow_exception(first);
}

void move_pieces(unsigned threads, uint64_t bytes, uint64_t piece_bytes, const PieceMover &move) {
  std::atomic<uint64_t> next{0};
  on_threads(threads, [&](unsigned thread) {
    while (interrupted() == 0) {
      const uint64_t offset = next.fetch_add(piece_bytes);
      if (offset >= bytes) return;
      move(thread, offset, std::min(piece_bytes, bytes - offset));
    }
  });
  stop_if_interrupted();
}

std::vector<unsigned> thread_counts() {
  constexpr unsigned kMostThreads = 16;
  const unsigned most = std::clamp(std::thread::hardware_concurrency(), 4U, kMostThreads);
  std::vector<unsigned> counts;
  for (unsigned count = 1; count <= most; count *= 2) counts.push_back(count);
  return counts;
}

}  // namespace program

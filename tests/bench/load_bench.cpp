// `sluice load`'s work on the emulated driver beside the best plain loop, in one run and into the
// same device memory, which was touched before: what do ring, planning and driver cost?
//
//   load_bench FILE [ROUNDS]
// The plain loops move the file's bytes into the device's memory with 1 to 8 threads, by
// positioned reads or by copying from a mapping. Medians over ROUNDS (default 5) rounds, in which
// everything takes turns. Processor seconds tell what the processors are: where two share a core's
// units, two threads use more of them than one for the same work.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/session.h"

namespace {

using Clock = std::chrono::steady_clock;

double processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

struct Sample {
  double seconds;
  double processor_seconds;
};

class Stopwatch {
 public:
  Sample read() const {
    return {std::chrono::duration<double>(Clock::now() - start_).count(),
            processor_seconds() - processor_start_};
  }

 private:
  Clock::time_point start_ = Clock::now();
  double processor_start_ = processor_seconds();
};

struct Source {
  int descriptor;
  uint64_t bytes;
  const unsigned char *view;
};

template <typename Move>
Sample plain_loop(unsigned threads, uint64_t bytes, Move move) {
  constexpr uint64_t kPiece = 2 << 20;
  const Stopwatch watch;
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (;;) {
        const uint64_t at = next.fetch_add(kPiece);
        if (at >= bytes) return;
        move(at, std::min(kPiece, bytes - at));
      }
    });
  for (std::thread &thread : all) thread.join();
  return watch.read();
}

void fail(const char *what) {
  std::fprintf(stderr, "load_bench: %s: %s\n", what, support::last_error().c_str());
  std::exit(1);
}

// One load as the program times it; the plain loops then run into the memory that it used.
Sample load(const char *path, std::map<std::string, std::vector<Sample>> *plain,
            const Source &source) {
  sluice_options options = support::emulated_options();
  support::Session session(options);
  if (session.status() != SLUICE_OK) fail("device");
  const Stopwatch watch;
  sluice_checkpoint *checkpoint = nullptr;
  sluice_buffer *buffer = nullptr;
  if (sluice_checkpoint_open(session.runtime, path, &checkpoint) != SLUICE_OK) fail("open");
  if (sluice_checkpoint_load(checkpoint, session.device, 0, nullptr, nullptr, nullptr, nullptr,
                             &buffer, nullptr) != SLUICE_OK ||
      sluice_stream_synchronize(session.device, nullptr) != SLUICE_OK)
    fail("load");
  const Sample sample = watch.read();
  const uint64_t bytes = std::min(source.bytes, sluice_buffer_size(buffer));
  auto *target = static_cast<unsigned char *>(
      support::emulator::host_alias()(sluice_buffer_address(buffer), bytes));
  if (!target) fail("alias");
  for (const unsigned threads : {1u, 2u, 4u, 8u}) {
    (*plain)["positioned reads, " + std::to_string(threads) + " threads"].push_back(
        plain_loop(threads, bytes, [&](uint64_t at, uint64_t count) {
          if (pread(source.descriptor, target + at, count, static_cast<off_t>(at)) < 0) _exit(1);
        }));
    (*plain)["mapping, " + std::to_string(threads) + " threads"].push_back(plain_loop(
        threads, bytes,
        [&](uint64_t at, uint64_t count) { std::memcpy(target + at, source.view + at, count); }));
  }
  sluice_buffer_destroy(buffer);
  sluice_checkpoint_close(checkpoint);
  return sample;
}

double median(const std::vector<Sample> &samples, double Sample::*part) {
  std::vector<double> values;
  for (const Sample &sample : samples) values.push_back(sample.*part);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double print_line(const std::string &name, const std::vector<Sample> &samples, uint64_t bytes) {
  const double seconds = median(samples, &Sample::seconds);
  std::printf("%-32s %7.3f s %7.2f GB/s %7.3f processor s\n", name.c_str(), seconds,
              static_cast<double>(bytes) / 1e9 / seconds,
              median(samples, &Sample::processor_seconds));
  return seconds;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: load_bench FILE [ROUNDS]\n");
    return 2;
  }
  const long asked = argc > 2 ? std::strtol(argv[2], nullptr, 10) : 5;
  const int rounds = static_cast<int>(std::clamp(asked, 1L, 1000L));
  const int descriptor = open(argv[1], O_RDONLY);
  struct stat facts {};
  if (descriptor < 0 || fstat(descriptor, &facts) != 0) fail(argv[1]);
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  void *view = mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (view == MAP_FAILED) fail("mmap");
  const Source source{descriptor, bytes, static_cast<const unsigned char *>(view)};
  support::emulator::set()("MEMORY", std::to_string(bytes + (uint64_t{1} << 30)).c_str());
  support::emulator::set()("PRETOUCH", std::to_string(bytes + (uint64_t{256} << 20)).c_str());
  support::emulator::set()("MISUSE", "off");
  support::emulator::set()("POISON", "0");
  std::map<std::string, std::vector<Sample>> plain;
  std::vector<Sample> ours;
  load(argv[1], &plain, source);  // warms up
  plain.clear();
  for (int round = 0; round < rounds; ++round) ours.push_back(load(argv[1], &plain, source));
  double best = 1e9;
  for (const auto &[name, samples] : plain) best = std::min(best, print_line(name, samples, bytes));
  const double seconds = print_line("sluice", ours, bytes);
  std::printf("sluice takes %.3f of the best plain loop's time\n", seconds / best);
}

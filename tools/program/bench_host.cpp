// sluice bench io: from the file to host memory. All candidates fill the same page-locked memory,
// which is smaller than the file and used again and again.
#include <algorithm>
#include <deque>
#include <memory>

#include "tools/program/bench_io.h"
#include "tools/program/failure.h"

namespace program {
namespace {

constexpr unsigned char kNotTheFile = 0xa5;

struct ReadReleaser {
  void operator()(sluice_read *read) const { sluice_read_release(read); }
};
using Read = std::unique_ptr<sluice_read, ReadReleaser>;

Read submit(const BenchSetup &setup, sluice_file *file, uint64_t begin, uint64_t end) {
  std::vector<sluice_read_range> ranges;
  for (uint64_t offset = begin; offset < end; offset += PinnedPieces::kPieceBytes) {
    sluice_read_range range{};
    range.file = file;
    range.file_offset = offset;
    range.size_bytes = std::min(PinnedPieces::kPieceBytes, end - offset);
    range.host_address = setup.pinned->at(offset);
    ranges.push_back(range);
  }
  sluice_read *read = nullptr;
  check(sluice_read_submit(setup.device.get(), ranges.data(), ranges.size(), nullptr, nullptr,
                           &read));
  return Read(read);
}

// One half of the memory is being filled while the other one's read is waited for.
BenchSample read_by_sluice(const BenchSetup &setup) {
  const Stopwatch watch;
  sluice_file *opened = nullptr;
  check(sluice_file_open(setup.runtime.get(), setup.file->path().c_str(), &opened));
  const File file(opened);
  const uint64_t half = setup.pinned->bytes() / 2;
  std::deque<Read> in_flight;
  const auto wait = [&] {
    check(sluice_read_wait(in_flight.front().get()));
    in_flight.pop_front();
  };
  for (uint64_t begin = 0; begin < setup.file->bytes(); begin += half) {
    if (in_flight.size() == 2) wait();
    in_flight.push_back(submit(setup, opened, begin, std::min(begin + half, setup.file->bytes())));
  }
  while (!in_flight.empty()) wait();
  return watch.read();
}

// What was read last is still there.
void check_memory(const BenchSetup &setup) {
  const uint64_t bytes = setup.file->bytes();
  const uint64_t half = setup.pinned->bytes() / 2;
  const uint64_t last = (bytes - 1) / half * half;
  const uint64_t begin = last < half ? 0 : last - half;
  for (uint64_t offset = begin; offset < bytes; offset += kBenchPieceBytes) {
    check_bytes(*setup.file, offset, setup.pinned->at(offset),
                std::min(kBenchPieceBytes, bytes - offset), "file -> host");
  }
}

// Each thread has places of its own, as many as there are for it, and takes them in turn.
class PlacesOfThreads {
 public:
  PlacesOfThreads(const PinnedPieces &pinned, unsigned threads)
      : pinned_(pinned),
        places_(pinned.bytes() / kBenchPieceBytes),
        threads_(threads),
        used_(threads) {
    if (places_ >= threads) return;
    throw Failure(sluice_status_name(SLUICE_LIMIT_REACHED),
                  "there is less pinned memory than a piece for each thread");
  }

  unsigned char *next(unsigned thread) {
    const uint64_t own = (places_ - thread + threads_ - 1) / threads_;
    return pinned_.at((thread + used_[thread]++ % own * threads_) * kBenchPieceBytes);
  }

 private:
  const PinnedPieces &pinned_;
  const uint64_t places_;
  const unsigned threads_;
  std::vector<uint64_t> used_;
};

template <typename Move>
BenchSample plain_loop(const BenchSetup &setup, unsigned threads, const Move &move) {
  PlacesOfThreads places(*setup.pinned, threads);
  const Stopwatch watch;
  move_pieces(threads, setup.file->bytes(), kBenchPieceBytes,
              [&](unsigned thread, uint64_t offset, uint64_t bytes) {
                move(offset, bytes, places.next(thread));
              });
  return watch.read();
}

BenchSample copy_from_mapping(const BenchSetup &setup, unsigned threads, bool populate) {
  const FileMapping mapping = setup.file->map(populate);
  return plain_loop(setup, threads, [&](uint64_t offset, uint64_t bytes, unsigned char *target) {
    std::copy_n(mapping.data() + offset, bytes, target);
  });
}

}  // namespace

BenchWork file_to_host(const BenchSetup &setup, ColdState *cold) {
  BenchWork work;
  work.name = cold == nullptr ? "file -> host, warm" : "file -> host, cold";
  work.bytes = setup.file->bytes();
  work.warm_up = cold == nullptr;
  work.prepare = make_cold(setup, cold);
  work.candidates.push_back(
      {"sluice, to pinned memory", true, true, [&setup] { return read_by_sluice(setup); },
       [&setup] { setup.pinned->fill(kNotTheFile); }, [&setup] { check_memory(setup); }});
  const auto add = [&](const char *what, unsigned threads, std::function<BenchSample()> run) {
    work.candidates.push_back(
        {with_threads(what, threads), false, false, std::move(run), nullptr, nullptr});
  };
  for (const unsigned threads : buffered_thread_counts(cold)) {
    add("positioned reads", threads, [&setup, threads] {
      return plain_loop(setup, threads,
                        [&](uint64_t offset, uint64_t bytes, unsigned char *target) {
                          setup.file->read(offset, bytes, target);
                        });
    });
  }
  for (const unsigned threads : buffered_thread_counts(cold)) {
    add("memcpy from a mapping", threads, [&setup, threads, populate = cold == nullptr] {
      return copy_from_mapping(setup, threads, populate);
    });
  }
  for (const unsigned threads : direct_thread_counts(cold)) {
    add("direct reads", threads, [&setup, threads] {
      return plain_loop(setup, threads,
                        [&](uint64_t offset, uint64_t bytes, unsigned char *target) {
                          setup.file->read_direct(offset, bytes, target);
                        });
    });
  }
  return work;
}

}  // namespace program

// sluice bench io: from host memory to the device, and page-locking memory. The driver copies and
// sluice's memory is compared with other memory: the library has no copy of its own to time.
#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "tools/program/bench_io.h"
#include "tools/program/bench_ring.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr unsigned char kContents = 0x3c;
constexpr uint64_t kLargeCopyBytes = uint64_t{64} << 20;
constexpr uint64_t kMostCopiedBytes = uint64_t{1} << 30;
constexpr unsigned kPiecesToPin = 6;

// `source(n)` is the memory of the n-th copy.
template <typename Source>
BenchSample copy_loop(const BenchSetup &setup, uint64_t total, uint64_t copy_bytes,
                      const Source &source) {
  const DriverStream stream(*setup.driver);
  const Stopwatch watch;
  for (uint64_t at = 0; at < total; at += copy_bytes) {
    setup.driver->copy_to_device(setup.address() + at, source(at / copy_bytes),
                                 std::min(copy_bytes, total - at), stream.get());
  }
  setup.driver->synchronize_stream(stream.get());
  return watch.read();
}

BenchSample copy_from_sluice(const BenchSetup &setup, uint64_t total, uint64_t copy_bytes) {
  const uint64_t pieces = setup.pinned->bytes() / PinnedPieces::kPieceBytes;
  return copy_loop(setup, total, copy_bytes, [&](uint64_t number) {
    return setup.pinned->at(number % pieces * PinnedPieces::kPieceBytes);
  });
}

// One memory for all samples.
std::function<BenchSample()> copies_from_driver(const BenchSetup &setup, uint64_t total,
                                                uint64_t copy_bytes) {
  auto memory = std::make_shared<std::unique_ptr<DriverMemory>>();
  return [&setup, total, copy_bytes, memory] {
    const uint64_t bytes = std::min(kLargeCopyBytes, total);
    if (!*memory) {
      *memory = std::make_unique<DriverMemory>(*setup.driver, bytes);
      std::memset((*memory)->data(), kContents, bytes);
    }
    const uint64_t places = std::max<uint64_t>(bytes / copy_bytes, 1);
    return copy_loop(setup, total, copy_bytes, [&](uint64_t number) {
      return (*memory)->data() + number % places * copy_bytes;
    });
  };
}

BenchSample copy_from_pageable(const BenchSetup &setup, uint64_t total,
                               const std::vector<unsigned char> &memory) {
  const Stopwatch watch;
  for (uint64_t at = 0; at < total; at += kLargeCopyBytes) {
    setup.driver->copy_to_device(setup.address() + at, memory.data(),
                                 std::min(kLargeCopyBytes, total - at));
  }
  return watch.read();
}

}  // namespace

BenchWork host_to_device(const BenchSetup &setup) {
  BenchWork work;
  work.name = "host -> device";
  work.bytes = std::min(setup.file->bytes(), kMostCopiedBytes);
  const uint64_t total = work.bytes;
  const auto add = [&](std::string how, bool sluice, std::function<BenchSample()> run) {
    work.candidates.push_back({std::move(how), sluice, false, std::move(run), nullptr, nullptr});
  };
  const uint64_t small = std::min(setup.slot_bytes, PinnedPieces::kPieceBytes);
  add(fmt::format("pinned by sluice, copies of {}", human_size(small)), true,
      [&setup, total, small] { return copy_from_sluice(setup, total, small); });
  for (const uint64_t copy_bytes : {setup.slot_bytes, kLargeCopyBytes}) {
    add(fmt::format("cuMemAllocHost, copies of {}", human_size(copy_bytes)), false,
        copies_from_driver(setup, total, copy_bytes));
    if (setup.slot_bytes == kLargeCopyBytes) break;
  }
  add(fmt::format("pageable, cuMemcpyHtoD of {}", human_size(kLargeCopyBytes)), false,
      [&setup, total,
       memory = std::vector<unsigned char>(std::min(kLargeCopyBytes, total), kContents)] {
        return copy_from_pageable(setup, total, memory);
      });
  return work;
}

BenchWork pinning(const BenchSetup &setup) {
  BenchWork work;
  work.name = "pinning";
  work.bytes = kPiecesToPin * PinnedPieces::kPieceBytes;
  work.warm_up = false;
  // Kept until all is over: memory that is given back would be there again at once.
  auto kept = std::make_shared<std::vector<std::unique_ptr<PinnedPieces>>>();
  work.candidates.push_back({fmt::format("sluice_pinned_alloc, {} of {}", kPiecesToPin,
                                         human_size(PinnedPieces::kPieceBytes)),
                             true, false,
                             [&setup, kept] {
                               kept->push_back(std::make_unique<PinnedPieces>(setup.device.get()));
                               const Stopwatch watch;
                               for (unsigned i = 0; i < kPiecesToPin; i += 2)
                                 kept->back()->add_two();
                               kept->back()->touch();
                               return watch.read();
                             },
                             nullptr, nullptr});
  work.candidates.push_back({fmt::format("cuMemAllocHost, {}", human_size(work.bytes)), false,
                             false,
                             [&setup, bytes = work.bytes] {
                               const Stopwatch watch;
                               const DriverMemory memory(*setup.driver, bytes);
                               touch_pages(memory.data(), bytes);
                               return watch.read();
                             },
                             nullptr, nullptr});
  return work;
}

}  // namespace program

// sluice bench io: from the file to its final place on the device.
#include <algorithm>

#include "tools/program/bench_io.h"
#include "tools/program/bench_ring.h"
#include "tools/program/failure.h"

namespace program {
namespace {

constexpr unsigned char kNotTheFile = 0xa5;
constexpr uint64_t kCheckedBytes = uint64_t{4} << 20;

BenchSample plain_loop(const BenchSetup &setup, unsigned threads, bool direct) {
  PlainRing ring(*setup.driver, threads, setup.slot_bytes);
  const Stopwatch watch;
  move_pieces(threads, setup.file->bytes(), setup.slot_bytes,
              [&](unsigned thread, uint64_t offset, uint64_t bytes) {
                ring.move(thread, setup.address() + offset, bytes, [&](unsigned char *memory) {
                  if (direct) {
                    setup.file->read_direct(offset, bytes, memory);
                  } else {
                    setup.file->read(offset, bytes, memory);
                  }
                });
              });
  ring.finish();
  return watch.read();
}

void check_device(const BenchSetup &setup) {
  std::vector<unsigned char> bytes(kCheckedBytes);
  for (uint64_t offset = 0; offset < setup.file->bytes(); offset += kCheckedBytes) {
    const uint64_t count = std::min(kCheckedBytes, setup.file->bytes() - offset);
    check(sluice_copy_to_host(setup.device.get(), setup.address() + offset, count, nullptr,
                              bytes.data()));
    check_bytes(*setup.file, offset, bytes.data(), count, "file -> device");
  }
}

}  // namespace

BenchSample read_to_device(const BenchSetup &setup) {
  const Stopwatch watch;
  sluice_file *opened = nullptr;
  check(sluice_file_open(setup.runtime.get(), setup.file->path().c_str(), &opened));
  const File file(opened);
  sluice_read_range range{};
  range.file = opened;
  range.size_bytes = setup.file->bytes();
  range.device_address = setup.address();
  sluice_read *read = nullptr;
  check(sluice_read_submit(setup.device.get(), &range, 1, nullptr, nullptr, &read));
  const sluice_status status = sluice_read_wait(read);
  sluice_read_release(read);
  check(status);
  check(sluice_stream_synchronize(setup.device.get(), nullptr));
  return watch.read();
}

BenchWork file_to_device(const BenchSetup &setup, ColdState *cold) {
  BenchWork work;
  work.name = cold == nullptr ? "file -> device, warm" : "file -> device, cold";
  work.bytes = setup.file->bytes();
  work.warm_up = cold == nullptr;
  work.prepare = make_cold(setup, cold);
  work.candidates.push_back({"sluice", true, true, [&setup] { return read_to_device(setup); },
                             [&setup] {
                               if (!setup.driver) return;
                               setup.driver->fill(setup.address(), kNotTheFile,
                                                  setup.file->bytes());
                             },
                             [&setup] { check_device(setup); }});
  if (!setup.driver) return work;
  const auto add = [&](const char *what, unsigned threads, bool direct) {
    work.candidates.push_back(
        {with_threads(what, threads), false, false,
         [&setup, threads, direct] { return plain_loop(setup, threads, direct); }, nullptr,
         nullptr});
  };
  for (const unsigned threads : buffered_thread_counts(cold)) {
    add("positioned reads, pinned ring", threads, false);
  }
  for (const unsigned threads : direct_thread_counts(cold)) {
    add("direct reads, pinned ring", threads, true);
  }
  return work;
}

}  // namespace program

// The parts of `sluice bench io`: what all works share, and the works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/program/bench_driver.h"
#include "tools/program/bench_file.h"
#include "tools/program/bench_measure.h"
#include "tools/program/bench_memory.h"
#include "tools/program/handles.h"
#include "tools/program/options.h"

namespace program {

// The members are destroyed from the last to the first, as the library asks.
struct BenchSetup {
  std::unique_ptr<BenchFile> file;
  Runtime runtime;
  Device device;
  Buffer buffer;                        // device memory for what is read of the file
  std::unique_ptr<BenchDriver> driver;  // null: `notes` say why
  std::unique_ptr<PinnedPieces> pinned;
  uint64_t slot_bytes = 0;
  std::vector<std::string> notes;

  [[nodiscard]] uint64_t address() const { return sluice_buffer_address(buffer.get()); }
};

// Opens everything and reads the file once, which makes the ring and touches the device memory.
[[nodiscard]] BenchSetup set_up_bench(const Request &request);

// Where the cold works saw the page cache before their samples: the most of it. Negative: unknown.
struct ColdState {
  double most_resident = 0;
};

// The setup, and for cold works the state, must outlive the work; a null state means warm.
[[nodiscard]] BenchWork file_to_host(const BenchSetup &setup, ColdState *cold);
[[nodiscard]] BenchWork file_to_device(const BenchSetup &setup, ColdState *cold);
// These need the driver.
[[nodiscard]] BenchWork host_to_device(const BenchSetup &setup);
[[nodiscard]] BenchWork pinning(const BenchSetup &setup);

// What they share.
constexpr uint64_t kBenchPieceBytes = uint64_t{2} << 20;  // of plain loops
[[nodiscard]] std::function<void()> make_cold(const BenchSetup &setup, ColdState *cold);
// With how many threads plain loops read through the page cache: not at all for a cold work where
// nothing can be dropped from it.
[[nodiscard]] std::vector<unsigned> buffered_thread_counts(const ColdState *cold);
[[nodiscard]] std::vector<unsigned> direct_thread_counts(const ColdState *cold);  // cold: to 8
[[nodiscard]] std::string with_threads(const char *what, unsigned threads);
// One read of the library, from opening the file to the last byte's arrival.
[[nodiscard]] BenchSample read_to_device(const BenchSetup &setup);
// Throws Failure VERIFY_FAILED unless the bytes are those of the file at `offset`.
void check_bytes(const BenchFile &file, uint64_t offset, const unsigned char *bytes, uint64_t count,
                 const char *where);

}  // namespace program

#include <algorithm>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "tools/program/bench_io.h"
#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr uint64_t kMostBytesByDefault = uint64_t{4} << 30;
constexpr uint64_t kFewestPinnedPieces = 4;  // a place for each of 16 threads
constexpr uint64_t kMostPinnedPieces = 26;   // 260 MiB

Buffer make_buffer(const Device &device, uint64_t bytes) {
  sluice_buffer *made = nullptr;
  check(sluice_buffer_create(device.get(), bytes, &made));
  Buffer buffer(made);
  const sluice_status status = sluice_buffer_grow(made, bytes);
  if (status == SLUICE_OK) return buffer;
  Failure failure = library_failure(status);
  Failure longer(failure.status, fmt::format("{}; --size SIZE takes less of the file than {}",
                                             failure.what(), human_size(bytes)));
  longer.call = failure.call;
  longer.code = failure.code;
  throw longer;
}

// An even number: the library fills one half while it is waited for the other.
std::unique_ptr<PinnedPieces> make_pinned(const Device &device, uint64_t bytes) {
  const uint64_t halves =
      (bytes + 2 * PinnedPieces::kPieceBytes - 1) / PinnedPieces::kPieceBytes / 2;
  const uint64_t wanted = std::clamp(halves * 2, kFewestPinnedPieces, kMostPinnedPieces);
  auto pinned = std::make_unique<PinnedPieces>(device.get());
  while (pinned->bytes() < wanted * PinnedPieces::kPieceBytes) {
    try {
      pinned->add_two();
    } catch (const Failure &) {
      if (pinned->bytes() == 0) throw;
      break;  // a limit: less will do
    }
  }
  return pinned;
}

std::unique_ptr<BenchDriver> open_driver(const Runtime &runtime, unsigned ordinal,
                                         std::vector<std::string> *notes) {
  auto report = sized<sluice_report>();
  check(sluice_report_get(runtime.get(), &report));
  try {
    return std::make_unique<BenchDriver>(report, ordinal);
  } catch (const Failure &failure) {
    notes->push_back(fmt::format("plain rows with the driver are left out: {}", failure.what()));
    return nullptr;
  }
}

}  // namespace

BenchSetup set_up_bench(const Request &request) {
  BenchSetup setup;
  const uint64_t most = request.bench.size_bytes;
  setup.file =
      std::make_unique<BenchFile>(request.paths[1], most == 0 ? kMostBytesByDefault : most);
  setup.runtime = create_runtime(request.library);
  const unsigned ordinal = request.device.value_or(0);
  setup.device = open_device(setup.runtime, ordinal);
  setup.buffer = make_buffer(setup.device, setup.file->bytes());
  static_cast<void>(read_to_device(setup));
  auto info = sized<sluice_device_info>();
  check(sluice_device_info_get(setup.device.get(), &info));
  setup.slot_bytes = info.ring_slots == 0 ? kBenchPieceBytes : info.ring_bytes / info.ring_slots;
  setup.driver = open_driver(setup.runtime, ordinal, &setup.notes);
  setup.pinned = make_pinned(setup.device, setup.file->bytes());
  return setup;
}

std::function<void()> make_cold(const BenchSetup &setup, ColdState *cold) {
  if (cold == nullptr) return {};
  return [&setup, cold] {
    setup.file->drop_from_cache();
    const double resident = setup.file->resident();
    if (resident < 0 || cold->most_resident < 0) {
      cold->most_resident = -1;
    } else {
      cold->most_resident = std::max(cold->most_resident, resident);
    }
  };
}

std::vector<unsigned> buffered_thread_counts(const ColdState *cold) {
  return cold == nullptr || kCanDropFromCache ? thread_counts() : std::vector<unsigned>();
}

std::vector<unsigned> direct_thread_counts(const ColdState *cold) {
  return cold == nullptr ? std::vector<unsigned>() : std::vector<unsigned>{1, 2, 4, 8};
}

std::string with_threads(const char *what, unsigned threads) {
  return fmt::format("{}, {}", what, counted(threads, "thread"));
}

void check_bytes(const BenchFile &file, uint64_t offset, const unsigned char *bytes, uint64_t count,
                 const char *where) {
  std::vector<unsigned char> expected(count);
  file.read(offset, count, expected.data());
  if (std::memcmp(expected.data(), bytes, count) == 0) return;
  const auto differs = std::mismatch(expected.begin(), expected.end(), bytes).first;
  throw Failure("VERIFY_FAILED",
                fmt::format("{}: what arrived differs from the file from byte {} on", where,
                            offset + static_cast<uint64_t>(differs - expected.begin())));
}

}  // namespace program

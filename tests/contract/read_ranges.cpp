// Each range of a read by itself: waited for, told of, and what becomes of the others.
#include <doctest/doctest.h>

#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <optional>
#include <thread>

#include "runtime/os.h"
#include "tests/support/files.h"
#include "tests/support/gate.h"
#include "tests/support/session.h"

namespace {

using namespace support;

constexpr uint64_t kSlot = 64 << 10;
constexpr size_t kRanges = 6;
constexpr uint64_t kRangeBytes = 2 * kSlot;

Gate gate;
uint64_t failing_offset = UINT64_MAX;

int64_t read_through_gate(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  gate.pass(offset);
  if (offset == failing_offset) return -EIO;
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}

// What on_range was told, by range; `then` is called besides.
struct Told {
  std::mutex mutex;
  std::map<size_t, std::vector<sluice_status>> statuses;
  std::function<void(sluice_read *, size_t)> then;

  static void on_range(void *user, sluice_read *read, size_t range, sluice_status status) {
    Told &told = *static_cast<Told *>(user);
    {
      const std::lock_guard lock(told.mutex);
      told.statuses[range].push_back(status);
    }
    if (told.then) told.then(read, range);
  }
  size_t count(sluice_status status) {
    const std::lock_guard lock(mutex);
    size_t count = 0;
    for (const auto &[range, list] : statuses) count += list == std::vector{status};
    return count;
  }
};

sluice_options one_thread() {
  sluice_options options = emulated_options();
  options.io = SLUICE_IO_THREADS;
  options.direct_io = SLUICE_OFF;
  options.io_workers = 1;
  options.slot = kSlot;
  options.ring = 4 * kSlot;
  return options;
}

// A file of six ranges of two pieces each, read by one thread through the gate.
class Reading {
 public:
  explicit Reading(const sluice_options &options = one_thread())
      : data_(pattern(kRanges * kRangeBytes, 5)) {
    write_file(folder_.file("f"), data_.data(), data_.size());
    table_ = sluice::os_native();
    table_.read_at = read_through_gate;
    sluice::os_replace(&table_);
    session_.emplace(options);
    REQUIRE(session_->status() == SLUICE_OK);
    REQUIRE(sluice_file_open(session_->runtime, folder_.file("f").c_str(), &file) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session_->device, data_.size(), &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, data_.size()) == SLUICE_OK);
    gate.shut();
  }
  ~Reading() {
    gate.let_through();
    failing_offset = UINT64_MAX;
    sluice_buffer_destroy(buffer);
    CHECK(sluice_file_close(file) == SLUICE_OK);
    session_.reset();
    sluice::os_replace(nullptr);
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
  }
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;

  std::vector<sluice_read_range> ranges() const {
    std::vector<sluice_read_range> all;
    for (size_t i = 0; i < kRanges; ++i)
      all.push_back({file, i * kRangeBytes, kRangeBytes,
                     sluice_buffer_address(buffer) + i * kRangeBytes, nullptr, nullptr});
    return all;
  }
  sluice_read *submit(Told *told, uint32_t timeout_ms = 0) {
    sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    if (told) options.on_range = &Told::on_range;
    options.user = told;
    const auto all = ranges();
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(session_->device, all.data(), all.size(), nullptr, &options,
                               &read) == SLUICE_OK);
    return read;
  }
  bool is_right(size_t range, void *stream = nullptr) {
    std::vector<unsigned char> bytes(kRangeBytes);
    const uint64_t offset = range * kRangeBytes;
    REQUIRE(sluice_copy_to_host(device(), sluice_buffer_address(buffer) + offset, kRangeBytes,
                                stream, bytes.data()) == SLUICE_OK);
    return std::equal(bytes.begin(), bytes.end(), data_.begin() + static_cast<ptrdiff_t>(offset));
  }
  sluice_device *device() const { return session_->device; }
  sluice_runtime *runtime() const { return session_->runtime; }

  sluice_file *file = nullptr;
  sluice_buffer *buffer = nullptr;

 private:
  const TemporaryFolder folder_;
  const std::vector<unsigned char> data_;
  sluice::OsTable table_;
  std::optional<Session> session_;
};

enum class End { kFailure, kCancelled, kLate };

sluice_status answer_to(End end) {
  if (end == End::kFailure) return SLUICE_IO_ERROR;
  return end == End::kCancelled ? SLUICE_CANCELLED : SLUICE_TIMED_OUT;
}

bool has_arrived(sluice_read *read, size_t range) {
  bool arrived = false;
  REQUIRE(sluice_read_range_arrived(read, range, &arrived) == SLUICE_OK);
  return arrived;
}

}  // namespace

TEST_CASE("one range is waited for while the others have not been read") {
  Reading reading;
  sluice_read *read = reading.submit(nullptr);
  CHECK(!has_arrived(read, 0));
  gate.let_through(2);
  REQUIRE(sluice_read_wait_range(read, 0, nullptr) == SLUICE_OK);
  CHECK(has_arrived(read, 0));
  CHECK(!has_arrived(read, 1));
  CHECK(reading.is_right(0));
  gate.let_through();
  for (size_t i = kRanges; i-- > 0;) {
    REQUIRE(sluice_read_wait_range(read, i, nullptr) == SLUICE_OK);
    CHECK(reading.is_right(i));
  }
  CHECK(sluice_read_wait(read) == SLUICE_OK);
  CHECK(sluice_read_wait_range(read, 3, nullptr) == SLUICE_OK);
  CHECK(sluice_read_wait_range(read, kRanges, nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("range 6") != std::string::npos);
  sluice_read_release(read);
}

// The link is slow here, so a stream that isn't ordered behind the copies sees old bytes.
TEST_CASE("any stream of the device can be ordered behind a range") {
  for (const uintptr_t stream : {1, 2}) {  // CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
    emulator::set()("H2D_BANDWIDTH", "32MiB");
    Reading reading;
    sluice_read *read = reading.submit(nullptr);
    gate.let_through();
    for (size_t i = 0; i < kRanges; ++i) {
      REQUIRE(sluice_read_wait_range(read, i, reinterpret_cast<void *>(stream)) == SLUICE_OK);
      CHECK(reading.is_right(i, reinterpret_cast<void *>(stream)));
    }
    sluice_read_release(read);
  }
  emulator::set()("H2D_BANDWIDTH", "0");
}

TEST_CASE("each range is told of once, empty ones too, before the wait returns") {
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS}) {
    sluice_options options = one_thread();
    options.io = io;
    options.io_workers = 3;
    options.direct_io = SLUICE_AUTO;
    Reading reading(options);
    gate.let_through();
    Told told;
    auto ranges = reading.ranges();
    ranges.insert(ranges.begin() + 2, {reading.file, 7, 0, 0, nullptr, nullptr});
    sluice_read_options read_options = SLUICE_READ_OPTIONS_INIT;
    read_options.on_range = &Told::on_range;
    read_options.user = &told;
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(reading.device(), ranges.data(), ranges.size(), nullptr,
                               &read_options, &read) == SLUICE_OK);
    CHECK(sluice_read_wait(read) == SLUICE_OK);
    CHECK(told.statuses.size() == kRanges + 1);
    CHECK(told.count(SLUICE_OK) == kRanges + 1);
    sluice_read_release(read);
  }
}

TEST_CASE("ranges that arrived before a failure, a cancellation or a deadline stay good") {
  for (const End end : {End::kFailure, End::kCancelled, End::kLate}) {
    Reading reading;
    Told told;
    if (end == End::kFailure) failing_offset = 2 * kRangeBytes;
    sluice_read *read = reading.submit(&told, end == End::kLate ? 1 : 0);
    if (end == End::kLate) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // nothing begins at a shut gate
    } else {
      gate.let_through(4);
      REQUIRE(sluice_read_wait_range(read, 1, nullptr) == SLUICE_OK);
    }
    if (end == End::kCancelled) CHECK(sluice_read_cancel(read) == SLUICE_OK);
    gate.let_through();
    const sluice_status expected = answer_to(end);
    CHECK(sluice_read_wait_range(read, kRanges - 1, nullptr) == expected);
    CHECK(sluice_read_wait(read) == expected);
    CHECK(told.statuses.size() == kRanges);
    CHECK(told.count(SLUICE_OK) + told.count(expected) == kRanges);
    CHECK(told.count(expected) >= 1);
    for (size_t i = 0; i < kRanges; ++i)
      if (has_arrived(read, i)) CHECK(reading.is_right(i));
    if (end != End::kLate) CHECK(told.count(SLUICE_OK) >= 2);
    sluice_read_release(read);
    failing_offset = UINT64_MAX;
    read = reading.submit(nullptr);
    CHECK(sluice_read_wait(read) == SLUICE_OK);
    CHECK(reading.is_right(kRanges - 1));
    sluice_read_release(read);
  }
}

TEST_CASE("inside on_range: what would wait for ever is refused, the rest works") {
  Reading reading;
  Told told, later;
  sluice_read *second = nullptr;
  sluice_status waited = SLUICE_OK, waited_range = SLUICE_OK, ordered = SLUICE_INTERNAL;
  told.then = [&](sluice_read *read, size_t range) {
    if (range != 0) return;
    waited = sluice_read_wait(read);
    waited_range = sluice_read_wait_range(read, kRanges - 1, nullptr);
    ordered = sluice_read_wait_range(read, 0, nullptr);
    sluice_read_release(read);  // refused: it is used on
    second = reading.submit(&later);
  };
  sluice_read *read = reading.submit(&told);
  gate.let_through();
  CHECK(sluice_read_wait(read) == SLUICE_OK);
  CHECK(waited == SLUICE_BUSY);
  CHECK(waited_range == SLUICE_BUSY);
  CHECK(ordered == SLUICE_OK);
  CHECK(told.count(SLUICE_OK) == kRanges);
  REQUIRE(second);
  CHECK(sluice_read_wait(second) == SLUICE_OK);
  CHECK(later.count(SLUICE_OK) == kRanges);
  sluice_read_release(second);
  sluice_read_release(read);
}

TEST_CASE("a submit that fails tells nobody") {
  Reading reading;
  Told told;
  auto ranges = reading.ranges();
  ranges.front().size_bytes = 0;
  ranges.back().device_address = 4096;  // nobody's
  sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
  options.on_range = &Told::on_range;
  options.user = &told;
  sluice_read *read = nullptr;
  CHECK(sluice_read_submit(reading.device(), ranges.data(), ranges.size(), nullptr, &options,
                           &read) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("range 5") != std::string::npos);
  CHECK(!read);
  CHECK(told.statuses.empty());
}

TEST_CASE("several threads wait for ranges of one read") {
  Reading reading;
  sluice_read *read = reading.submit(nullptr);
  std::array<sluice_status, kRanges + 1> answers;
  answers.fill(SLUICE_INTERNAL);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kRanges; ++i)
    threads.emplace_back([&, i] { answers[i] = sluice_read_wait_range(read, i, nullptr); });
  threads.emplace_back([&] { answers[kRanges] = sluice_read_wait(read); });
  gate.let_through();
  for (std::thread &thread : threads) thread.join();
  for (const sluice_status answer : answers) CHECK(answer == SLUICE_OK);
  for (size_t i = 0; i < kRanges; ++i) CHECK(reading.is_right(i));
  sluice_read_release(read);
}

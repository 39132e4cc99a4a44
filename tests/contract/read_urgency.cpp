// Which read goes first, and what a deadline drops: one reading thread behind a gate, which notes
// the order of its reads.
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <optional>
#include <thread>

#include "runtime/limits.h"
#include "runtime/os.h"
#include "tests/support/files.h"
#include "tests/support/gate.h"
#include "tests/support/session.h"

namespace {

using namespace support;
using sluice::kMiB;

constexpr uint64_t kSlot = 64 << 10;
constexpr uint64_t kPartBytes = 8 * kSlot;

Gate gate;

int64_t read_through_gate(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  gate.pass(offset);
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}

// Three parts of a file, each read to its own place, by one thread.
class Parts {
 public:
  Parts() : data_(pattern(3 * kPartBytes, 9)) {
    write_file(folder_.file("f"), data_.data(), data_.size());
    table_ = sluice::os_native();
    table_.read_at = read_through_gate;
    sluice::os_replace(&table_);
    sluice_options options = emulated_options();
    options.io = SLUICE_IO_THREADS;
    options.direct_io = SLUICE_OFF;
    options.io_workers = 1;
    options.slot = kSlot;
    options.ring = 2 * kSlot;
    session_.emplace(options);
    REQUIRE(session_->status() == SLUICE_OK);
    REQUIRE(sluice_file_open(session_->runtime, folder_.file("f").c_str(), &file_) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session_->device, data_.size(), &buffer_) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer_, data_.size()) == SLUICE_OK);
  }
  ~Parts() {
    gate.let_through();
    sluice_buffer_destroy(buffer_);
    CHECK(sluice_file_close(file_) == SLUICE_OK);
    session_.reset();
    sluice::os_replace(nullptr);
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
  }
  Parts(const Parts &) = delete;
  Parts &operator=(const Parts &) = delete;

  sluice_status try_submit(uint64_t part, const sluice_read_options *options, sluice_read **read,
                           uint64_t bytes = kPartBytes) {
    const uint64_t offset = part * kPartBytes;
    const sluice_read_range range = {
        file_, offset, bytes, sluice_buffer_address(buffer_) + offset, nullptr, "part"};
    return sluice_read_submit(session_->device, &range, 1, nullptr, options, read);
  }
  sluice_read *submit(uint64_t part, sluice_read_urgency urgency, uint32_t timeout_ms = 0,
                      uint64_t bytes = kPartBytes) {
    sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
    options.urgency = urgency;
    options.timeout_ms = timeout_ms;
    sluice_read *read = nullptr;
    REQUIRE(try_submit(part, &options, &read, bytes) == SLUICE_OK);
    return read;
  }
  // The parts in their order, with the first one's first piece at the shut gate.
  std::array<sluice_read *, 3> submit_all(const std::array<sluice_read_urgency, 3> &urgencies) {
    gate.shut();
    sluice_read *first = submit(0, urgencies[0]);
    gate.wait_for_first();
    return {first, submit(1, urgencies[1]), submit(2, urgencies[2])};
  }
  struct Late {
    sluice_read *read;
    std::chrono::milliseconds timeout;
  };
  // The first part with a deadline, its first piece at the shut gate: however slow the machine is,
  // some time is long enough to begin it.
  Late submit_late(uint64_t bytes = kPartBytes) {
    for (std::chrono::milliseconds timeout(20);; timeout *= 4) {
      gate.shut();
      sluice_read *read =
          submit(0, SLUICE_READ_DEMANDED, static_cast<uint32_t>(timeout.count()), bytes);
      if (gate.first_comes_within(timeout)) return {read, timeout};
      gate.let_through();
      sluice_read_release(read);
    }
  }
  sluice_status finish(sluice_read *read) {
    const sluice_status status = sluice_read_wait(read);
    sluice_read_release(read);
    return status;
  }
  bool arrived(uint64_t part) {
    std::vector<unsigned char> bytes(kPartBytes);
    const uint64_t offset = part * kPartBytes;
    REQUIRE(sluice_copy_to_host(session_->device, sluice_buffer_address(buffer_) + offset,
                                kPartBytes, nullptr, bytes.data()) == SLUICE_OK);
    return std::equal(bytes.begin(), bytes.end(), data_.begin() + static_cast<ptrdiff_t>(offset));
  }

 private:
  const TemporaryFolder folder_;
  const std::vector<unsigned char> data_;
  sluice::OsTable table_;
  std::optional<Session> session_;
  sluice_file *file_ = nullptr;
  sluice_buffer *buffer_ = nullptr;
};

// The parts in the order in which they were read, one letter a run of pieces: "aba".
std::string order() {
  std::string parts;
  for (const uint64_t offset : gate.offsets) {
    const char part = static_cast<char>('a' + offset / kPartBytes);
    if (parts.empty() || parts.back() != part) parts += part;
  }
  return parts;
}

}  // namespace

TEST_CASE("a demanded read passes speculative ones that were submitted before it") {
  Parts parts;
  const auto reads =
      parts.submit_all({SLUICE_READ_SPECULATIVE, SLUICE_READ_SPECULATIVE, SLUICE_READ_DEMANDED});
  gate.let_through();
  for (sluice_read *read : reads) CHECK(parts.finish(read) == SLUICE_OK);
  CHECK(order() == "acab");
  for (const uint64_t part : {0, 1, 2}) CHECK(parts.arrived(part));
}

TEST_CASE("equal reads are begun in the order of their submits") {
  Parts parts;
  gate.shut();
  sluice_read *a = parts.submit(0, SLUICE_READ_DEMANDED);
  gate.wait_for_first();
  sluice_read *b = nullptr;
  REQUIRE(parts.try_submit(1, nullptr, &b) == SLUICE_OK);
  sluice_read *c = parts.submit(2, SLUICE_READ_DEMANDED);
  gate.let_through();
  for (sluice_read *read : {c, b, a}) CHECK(parts.finish(read) == SLUICE_OK);
  CHECK(order() == "abc");
}

TEST_CASE("the urgency changes while the read waits, both ways") {
  Parts parts;
  const auto reads =
      parts.submit_all({SLUICE_READ_DEMANDED, SLUICE_READ_SPECULATIVE, SLUICE_READ_SPECULATIVE});
  CHECK(sluice_read_set_urgency(reads[2], SLUICE_READ_DEMANDED) == SLUICE_OK);
  CHECK(sluice_read_set_urgency(reads[0], SLUICE_READ_SPECULATIVE) == SLUICE_OK);
  gate.let_through();
  CHECK(sluice_read_wait(reads[2]) == SLUICE_OK);
  CHECK(sluice_read_set_urgency(reads[2], SLUICE_READ_SPECULATIVE) == SLUICE_OK);
  for (sluice_read *read : reads) CHECK(parts.finish(read) == SLUICE_OK);
  CHECK(order() == "acab");
  for (const uint64_t part : {0, 1, 2}) CHECK(parts.arrived(part));
}

TEST_CASE("past its deadline a read begins nothing more, and the next one works") {
  for (const bool waits : {false, true}) {
    CAPTURE(waits);
    Parts parts;
    const auto [late, timeout] = parts.submit_late();
    std::thread opener([passed = 2 * timeout] {
      std::this_thread::sleep_for(passed);
      gate.let_through();
    });
    if (!waits) {
      opener.join();
      CHECK(parts.finish(parts.submit(1, SLUICE_READ_DEMANDED)) == SLUICE_OK);
    }
    CHECK(sluice_read_wait(late) == SLUICE_TIMED_OUT);
    CHECK(last_error().find(std::to_string(timeout.count()) + " ms") != std::string::npos);
    CHECK(sluice_read_wait(late) == SLUICE_TIMED_OUT);
    if (waits) opener.join();
    CHECK(parts.finish(parts.submit(2, SLUICE_READ_DEMANDED, 600'000)) == SLUICE_OK);
    CHECK(parts.arrived(2));
    CHECK(order() == (waits ? "ac" : "abc"));
    CHECK(gate.offsets[1] >= kPartBytes);  // one piece of the late read
    sluice_read_release(late);
  }
}

TEST_CASE("a read whose last piece was begun in time ends well") {
  Parts parts;
  const auto [read, timeout] = parts.submit_late(kSlot);
  std::this_thread::sleep_for(2 * timeout);
  gate.let_through();
  CHECK(parts.finish(read) == SLUICE_OK);
}

TEST_CASE("a read behind a late one is not held up by it") {
  Parts parts;
  gate.shut();
  sluice_read *a = parts.submit(0, SLUICE_READ_DEMANDED);
  gate.wait_for_first();
  sluice_read *late = parts.submit(1, SLUICE_READ_DEMANDED, 1);
  sluice_read *c = parts.submit(2, SLUICE_READ_SPECULATIVE);
  CHECK(sluice_read_wait(late) == SLUICE_TIMED_OUT);  // while the only thread is busy
  gate.let_through();
  CHECK(parts.finish(a) == SLUICE_OK);
  CHECK(parts.finish(c) == SLUICE_OK);
  CHECK(parts.finish(late) == SLUICE_TIMED_OUT);
  CHECK(order() == "ac");
}

TEST_CASE("wrong options are refused by name") {
  Parts parts;
  sluice_read *read = nullptr;
  sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
  options.urgency = 2;
  CHECK(parts.try_submit(0, &options, &read) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("urgency is 2") != std::string::npos);
  options = SLUICE_READ_OPTIONS_INIT;
  options.reserved = 1;
  CHECK(parts.try_submit(0, &options, &read) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("reserved") != std::string::npos);
  options = SLUICE_READ_OPTIONS_INIT;
  options.struct_size = 3;
  CHECK(parts.try_submit(0, &options, &read) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("struct_size is 3") != std::string::npos);
  CHECK(read == nullptr);
  CHECK(sluice_read_set_urgency(nullptr, SLUICE_READ_DEMANDED) == SLUICE_INVALID_ARGUMENT);
  read = parts.submit(0, SLUICE_READ_SPECULATIVE);
  CHECK(sluice_read_set_urgency(read, 7) == SLUICE_INVALID_ARGUMENT);
  CHECK(parts.finish(read) == SLUICE_OK);
  CHECK(parts.arrived(0));
}

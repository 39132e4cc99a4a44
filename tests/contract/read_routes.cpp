// Where the bytes are decides how they are read: the page cache as the tests want it to be, by the
// operating-system table. The oracle is the file's own bytes.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "runtime/limits.h"
#include "runtime/os.h"
#include "tests/support/files.h"
#include "tests/support/session.h"

namespace {

using namespace support;
using sluice::kMiB;

constexpr uint64_t kFileBytes = 40 * kMiB + 12345;

std::atomic<int> uncached_reads, dropped;

// Every other MiB is in the page cache.
int64_t every_other(int, uint64_t offset, uint64_t bytes) {
  int64_t cached = 0;
  for (uint64_t at = offset; at < offset + bytes;) {
    const uint64_t stop = std::min((at / kMiB + 1) * kMiB, offset + bytes);
    if (at / kMiB % 2 == 0) cached += static_cast<int64_t>(stop - at);
    at = stop;
  }
  return cached;
}
int64_t nothing_cached(int, uint64_t, uint64_t) { return 0; }
int64_t all_cached(int, uint64_t, uint64_t bytes) { return static_cast<int64_t>(bytes); }
int64_t nobody_knows(int, uint64_t, uint64_t) { return -EPERM; }

int no_direct(int) { return -EINVAL; }
int64_t uncached_refused(int, void *, size_t, uint64_t) {
  ++uncached_reads;
  return -EOPNOTSUPP;
}
int64_t uncached_works(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  ++uncached_reads;
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}
int count_drop(int, uint64_t, uint64_t) {
  ++dropped;
  return 0;
}

struct Outcome {
  sluice_stats stats;
  std::string reason;
};

// Reads the whole file to an odd address and compares it.
Outcome read_with(const sluice::OsTable &table, sluice_io_backend io, sluice_switch direct) {
  static const TemporaryFolder folder;
  static const std::vector<unsigned char> data = [] {
    auto bytes = pattern(kFileBytes, 5);
    write_file(folder.file("f"), bytes.data(), bytes.size());
    return bytes;
  }();
  uncached_reads = dropped = 0;
  sluice_options options = emulated_options();
  options.io = io;
  options.direct_io = direct;
  options.slot = 256 << 10;
  options.io_workers = 3;
  options.ring = 8 * options.slot;
  Outcome outcome{};
  sluice::os_replace(&table);
  {
    Session session(options);
    REQUIRE(session.status() == SLUICE_OK);
    sluice_file *file = nullptr;
    sluice_buffer *buffer = nullptr;
    REQUIRE(sluice_file_open(session.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session.device, kFileBytes + 1, &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, kFileBytes + 1) == SLUICE_OK);
    const uint64_t target = sluice_buffer_address(buffer) + 1;
    const sluice_read_range range{file, 0, kFileBytes, target, nullptr, "f"};
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(session.device, &range, 1, nullptr, nullptr, &read) == SLUICE_OK);
    CHECK(sluice_read_wait(read) == SLUICE_OK);
    sluice_read_release(read);
    std::vector<unsigned char> got(kFileBytes);
    REQUIRE(sluice_copy_to_host(session.device, target, kFileBytes, nullptr, got.data()) ==
            SLUICE_OK);
    CHECK(got == data);
    outcome.stats = session.stats();
    sluice_io_info info = SLUICE_IO_INFO_INIT;
    REQUIRE(sluice_io_info_get(session.device, &info) == SLUICE_OK);
    outcome.reason = info.reason;
    sluice_buffer_destroy(buffer);
    CHECK(sluice_file_close(file) == SLUICE_OK);
  }
  sluice::os_replace(nullptr);
  CHECK(leaks() == "");
  CHECK(first_misuse() == "");
  CAPTURE(outcome.reason);
  return outcome;
}

constexpr uint64_t kPieces = (kFileBytes + (256 << 10) - 1) / (256 << 10);

template <typename Body>
void each_backend(Body body) {
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS}) {
    CAPTURE(static_cast<int>(io));
    body(io);
  }
}

}  // namespace

TEST_CASE("a file that is half in the page cache is split, piece by piece") {
  sluice::OsTable table = sluice::os_native();
  table.cached_bytes = every_other;
  each_backend([&](sluice_io_backend io) {
    const Outcome outcome = read_with(table, io, SLUICE_AUTO);
    CHECK(outcome.stats.reads == kPieces);
    // Buffered reads are tried beside them, and taken where they are faster on this machine.
    CHECK(outcome.stats.direct_reads > 0);
    CHECK(outcome.stats.direct_reads <= 80);
    CHECK(outcome.reason.find("20.01 MiB from the page cache, 20 MiB direct") != std::string::npos);
  });
}

TEST_CASE("what is in the page cache is never read around it, what isn't always") {
  sluice::OsTable table = sluice::os_native();
  table.cached_bytes = all_cached;
  each_backend([&](sluice_io_backend io) {
    const Outcome outcome = read_with(table, io, SLUICE_AUTO);
    CHECK(outcome.stats.direct_reads == 0);
    CHECK(read_with(table, io, SLUICE_ON).stats.direct_reads == kPieces);
  });
  for (const auto where : {nothing_cached, nobody_knows}) {
    table.cached_bytes = where;
    each_backend([&](sluice_io_backend io) {
      CHECK(read_with(table, io, SLUICE_AUTO).stats.direct_reads > 0);
      CHECK(read_with(table, io, SLUICE_OFF).stats.direct_reads == 0);
    });
  }
}

TEST_CASE("what is read once doesn't stay in the page cache") {
  sluice::OsTable table = sluice::os_native();
  table.reopen_direct = no_direct;
  table.drop_cached = count_drop;
  for (const auto where : {nothing_cached, every_other}) {
    const uint64_t cold = where == nothing_cached ? kPieces : 80;
    table.cached_bytes = where;
    table.read_uncached = uncached_works;
    CHECK(read_with(table, SLUICE_IO_THREADS, SLUICE_AUTO).stats.direct_io_fallbacks == 1);
    CHECK(uncached_reads == static_cast<int>(cold));
    CHECK(dropped == 0);
    // Where the system knows no flag for it, the pages are dropped afterwards.
    table.read_uncached = uncached_refused;
    read_with(table, SLUICE_IO_THREADS, SLUICE_AUTO);
    CHECK(uncached_reads >= 1);
    CHECK(uncached_reads <= 3);
    CHECK(dropped == static_cast<int>(cold));
  }
  // Asked for the page cache, nothing is kept out of it.
  table.cached_bytes = nothing_cached;
  read_with(table, SLUICE_IO_THREADS, SLUICE_OFF);
  CHECK(uncached_reads == 0);
  CHECK(dropped == 0);
}

// One read for several devices.
#include <doctest/doctest.h>

#include <cerrno>
#include <mutex>
#include <vector>

#include "runtime/os.h"
#include "tests/support/files.h"
#include "tests/support/gate.h"
#include "tests/support/session.h"

namespace {

using namespace support;

constexpr uint64_t kBytes = 900'001;

// Two devices with a buffer each, and the file that goes to both.
class Pair {
 public:
  Pair() : data_(pattern(kBytes, 6)) {
    REQUIRE(fresh_driver(nullptr, "2"));
    write_file(folder_.file("f"), data_.data(), data_.size());
    sluice_options options = emulated_options();
    options.slot = 64 << 10;
    options.ring = 4 * options.slot;
    options.io_workers = 2;
    options.io = SLUICE_IO_THREADS;
    options.direct_io = SLUICE_OFF;
    REQUIRE(sluice_runtime_create(&options, &runtime) == SLUICE_OK);
    REQUIRE(sluice_file_open(runtime, folder_.file("f").c_str(), &file) == SLUICE_OK);
    for (uint32_t i = 0; i < 2; ++i) {
      REQUIRE(sluice_device_open(runtime, i, &devices[i]) == SLUICE_OK);
      REQUIRE(sluice_buffer_create(devices[i], kBytes, &buffers[i]) == SLUICE_OK);
      REQUIRE(sluice_buffer_grow(buffers[i], kBytes) == SLUICE_OK);
    }
  }
  ~Pair() {
    sluice::os_replace(nullptr);
    for (uint32_t i = 0; i < 2; ++i) {
      sluice_buffer_destroy(buffers[i]);
      CHECK(sluice_device_close(devices[i]) == SLUICE_OK);
    }
    CHECK(sluice_file_close(file) == SLUICE_OK);
    CHECK(sluice_runtime_destroy(runtime) == SLUICE_OK);
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
    fresh_driver(nullptr, "1");
  }
  Pair(const Pair &) = delete;
  Pair &operator=(const Pair &) = delete;

  sluice_read_range range(uint32_t device, uint64_t offset, uint64_t bytes) const {
    return {file, offset, bytes, sluice_buffer_address(buffers[device]) + offset, nullptr, "r"};
  }
  bool is_right(uint32_t device, uint64_t offset, uint64_t bytes) const {
    std::vector<unsigned char> copy(bytes);
    REQUIRE(sluice_copy_to_host(devices[device], sluice_buffer_address(buffers[device]) + offset,
                                bytes, nullptr, copy.data()) == SLUICE_OK);
    return std::equal(copy.begin(), copy.end(), data_.begin() + static_cast<ptrdiff_t>(offset));
  }

  sluice_runtime *runtime = nullptr;
  sluice_file *file = nullptr;
  sluice_device *devices[2] = {};
  sluice_buffer *buffers[2] = {};

 private:
  const TemporaryFolder folder_;
  const std::vector<unsigned char> data_;
};

Gate gate;

// Those of the first half wait at the gate, those of the second half fail. A read begins before its
// bytes, at a multiple of 4 KiB.
int64_t failing_read(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  if (offset + 4096 > kBytes / 2) return -EIO;
  gate.pass(offset);
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}

struct Told {
  std::mutex mutex;
  std::vector<sluice_status> statuses;  // by range; INTERNAL: not told

  static void on_range(void *user, sluice_read *, size_t range, sluice_status status) {
    Told &told = *static_cast<Told *>(user);
    const std::lock_guard lock(told.mutex);
    CHECK(told.statuses.at(range) == SLUICE_INTERNAL);
    told.statuses.at(range) = status;
    if (status == SLUICE_IO_ERROR) gate.let_through();
  }
};

sluice_read_options telling(Told &told) {
  sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
  options.on_range = &Told::on_range;
  options.user = &told;
  return options;
}

}  // namespace

TEST_CASE("parts of a file go to two devices, and its middle to both") {
  const Pair pair;
  const sluice_read_range first[] = {pair.range(0, 0, 500'000), pair.range(0, 500'001, 0)};
  const sluice_read_range second[] = {pair.range(1, 400'000, 500'001)};
  const sluice_read_part parts[] = {{pair.devices[0], first, 2, nullptr},
                                    {pair.devices[1], second, 1, nullptr}};
  Told told{{}, std::vector(3, SLUICE_INTERNAL)};
  const sluice_read_options options = telling(told);
  sluice_read *read = nullptr;
  REQUIRE(sluice_read_submit_parts(parts, 2, &options, &read) == SLUICE_OK);
  CHECK(sluice_read_wait_range(read, 2, nullptr) == SLUICE_OK);
  CHECK(pair.is_right(1, 400'000, 500'001));
  CHECK(sluice_read_wait(read) == SLUICE_OK);
  CHECK(pair.is_right(0, 0, 500'000));
  uint64_t done = 0, total = 0;
  CHECK(sluice_read_progress(read, &done, &total) == SLUICE_OK);
  CHECK(done == 1'000'001);
  CHECK(total == 1'000'001);
  CHECK(told.statuses == std::vector(3, SLUICE_OK));
  sluice_read_release(read);
}

TEST_CASE("a failure for one device ends the read for all, and it works again") {
  const Pair pair;
  const uint64_t half = kBytes / 2 + 1;
  const sluice_read_range halves[] = {pair.range(0, 0, half), pair.range(1, half, kBytes - half)};
  const sluice_read_part parts[] = {{pair.devices[0], &halves[0], 1, nullptr},
                                    {pair.devices[1], &halves[1], 1, nullptr}};
  sluice::OsTable table = sluice::os_native();
  table.read_at = failing_read;
  Told told{{}, std::vector(2, SLUICE_INTERNAL)};
  const sluice_read_options options = telling(told);
  sluice_read *read = nullptr;
  gate.shut();
  sluice::os_replace(&table);
  REQUIRE(sluice_read_submit_parts(parts, 2, &options, &read) == SLUICE_OK);
  CHECK(sluice_read_wait_range(read, 0, nullptr) == SLUICE_IO_ERROR);
  CHECK(sluice_read_wait(read) == SLUICE_IO_ERROR);
  CHECK(last_error().find("r: ") != std::string::npos);
  sluice_read_release(read);
  sluice::os_replace(nullptr);
  CHECK(told.statuses == std::vector{SLUICE_CANCELLED, SLUICE_IO_ERROR});
  REQUIRE(sluice_read_submit_parts(parts, 2, nullptr, &read) == SLUICE_OK);
  CHECK(sluice_read_wait(read) == SLUICE_OK);
  sluice_read_release(read);
  CHECK(pair.is_right(0, 0, half));
  CHECK(pair.is_right(1, half, kBytes - half));
}

TEST_CASE("parts that can't be are refused, and nothing was begun") {
  const Pair pair;
  std::vector<unsigned char> host(1000);
  sluice_read_range first = pair.range(0, 0, 1000);
  sluice_read_range second = pair.range(1, 0, 1000);
  sluice_read_part parts[] = {{pair.devices[0], &first, 1, nullptr},
                              {pair.devices[1], &second, 1, nullptr}};
  Told told{{}, std::vector(2, SLUICE_INTERNAL)};
  const sluice_read_options options = telling(told);
  const auto refused = [&](const char *text, size_t count = 2) {
    sluice_read *read = nullptr;
    CHECK(sluice_read_submit_parts(parts, count, &options, &read) == SLUICE_INVALID_ARGUMENT);
    INFO(last_error());
    CHECK(last_error().find(text) != std::string::npos);
    CHECK(!read);
    CHECK(told.statuses == std::vector(2, SLUICE_INTERNAL));
  };
  refused("0 parts", 0);
  refused("65 parts", 65);
  parts[1].device = pair.devices[0];
  refused("parts 0 and 1 are for the same device");
  parts[1].device = nullptr;
  refused("part 1: device is NULL");
  parts[1] = {pair.devices[1], nullptr, 1, nullptr};
  refused("part 1: ranges is NULL");
  parts[1] = {pair.devices[1], &second, 0, nullptr};
  refused("part 1: 0 ranges");
  parts[1].count = 1;
  second.device_address = first.device_address;  // the other device's memory
  refused("range 1 ('r')");
  second = pair.range(1, 0, 1000);
  first.host_address = host.data();
  second.host_address = host.data() + 999;
  refused("range 0 ('r') and range 1 ('r') overlap at host address");
}

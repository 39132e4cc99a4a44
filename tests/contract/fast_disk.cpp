// Whether weights may leave RAM, measured on the emulated driver.
#include <doctest/doctest.h>

#include <cerrno>
#include <optional>

#include "runtime/os.h"
#include "tests/support/files.h"
#include "tests/support/session.h"

namespace {

using namespace support;

// A checkpoint of one tensor, the direct reads of which the test counts.
class Asking {
 public:
  explicit Asking(sluice_switch fast_disk, sluice_io_backend io = SLUICE_IO_AUTO) {
    write_checkpoint(folder_.file("m.safetensors"), {3'000'000}, 7);
    sluice_options options = emulated_options();
    options.fast_disk = fast_disk;
    options.io = io;
    options.slot = 256 << 10;
    options.ring = 4 * options.slot;
    session_.emplace(options);
    REQUIRE(session_->status() == SLUICE_OK);
    REQUIRE(sluice_checkpoint_open(session_->runtime, folder_.file("m.safetensors").c_str(),
                                   &checkpoint) == SLUICE_OK);
  }
  ~Asking() {
    sluice::os_replace(nullptr);
    CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
    session_.reset();
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
  }
  Asking(const Asking &) = delete;
  Asking &operator=(const Asking &) = delete;

  sluice_fast_disk_info ask() {
    sluice_fast_disk_info info = SLUICE_FAST_DISK_INFO_INIT;
    status = sluice_checkpoint_fast_disk(checkpoint, session_->device, &info);
    return info;
  }
  sluice_device *device() const { return session_->device; }
  uint64_t reads() const { return session_->stats().reads; }

  sluice_checkpoint *checkpoint = nullptr;
  sluice_status status = SLUICE_OK;

 private:
  const TemporaryFolder folder_;
  std::optional<Session> session_;
};

}  // namespace

TEST_CASE("what was asked for is answered without a read") {
  for (const sluice_switch asked : {SLUICE_ON, SLUICE_OFF}) {
    Asking asking(asked);
    const sluice_fast_disk_info info = asking.ask();
    CHECK(asking.status == SLUICE_OK);
    CHECK(info.on == (asked == SLUICE_ON));
    CHECK(info.asked == static_cast<uint32_t>(asked));
    CHECK(asking.reads() == 0);
    CHECK(info.ram_bytes_per_s == 0);
  }
}

TEST_CASE("auto measures once, whichever way reads go") {
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS}) {
    Asking asking(SLUICE_AUTO, io);
    const sluice_fast_disk_info first = asking.ask();
    INFO(first.reason);
    REQUIRE(asking.status == SLUICE_OK);
    CHECK(first.model_bytes == 3'000'000);
    CHECK(first.ram_room_bytes > 0);
    CHECK(first.ram_bytes_per_s > 0);
    const uint64_t reads = asking.reads();
    const sluice_fast_disk_info second = asking.ask();
    CHECK(asking.reads() == reads);
    CHECK(second.disk_bytes_per_s == first.disk_bytes_per_s);
    CHECK(first.on == (first.disk_bytes_per_s >= first.ram_bytes_per_s));
  }
}

TEST_CASE("a disk that fails while it is measured is told, and asking again works") {
  Asking asking(SLUICE_AUTO, SLUICE_IO_THREADS);
  sluice_file *file = nullptr;
  sluice_file_info file_info = SLUICE_FILE_INFO_INIT;
  REQUIRE(sluice_checkpoint_shard(asking.checkpoint, 0, nullptr, &file) == SLUICE_OK);
  REQUIRE(sluice_file_info_get(file, &file_info) == SLUICE_OK);  // tries a direct read
  sluice::OsTable table = sluice::os_native();
  table.read_at = [](int, void *, size_t, uint64_t) -> int64_t { return -EIO; };
  table.read_uncached = table.read_at;
  sluice::os_replace(&table);
  const sluice_fast_disk_info failed = asking.ask();
  sluice::os_replace(nullptr);
  if (file_info.direct_io)
    CHECK(asking.status == SLUICE_IO_ERROR);
  else  // all of it is in the page cache
    CHECK(failed.disk_bytes_per_s == 0);
  CHECK(asking.ask().model_bytes == 3'000'000);
  CHECK(asking.status == SLUICE_OK);
}

TEST_CASE("a device without room for a slot is told") {
  Asking asking(SLUICE_AUTO);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_device_set_vram_limit(asking.device(), 2 << 20) == SLUICE_OK);
  REQUIRE(sluice_buffer_create(asking.device(), 2 << 20, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 2 << 20) == SLUICE_OK);
  asking.ask();
  CHECK(asking.status == SLUICE_LIMIT_REACHED);
  sluice_buffer_destroy(buffer);
  asking.ask();
  CHECK(asking.status == SLUICE_OK);
}

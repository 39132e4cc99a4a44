// One suite over every way of reading: io_uring and threads, direct and buffered, over all driver
// versions. The oracle is the file's own bytes.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>

#include "runtime/os.h"
#include "tests/contract/ways.h"

using namespace support;

TEST_CASE("ranges of all shapes reach the device") {
  const TemporaryFolder folder;
  const auto data = pattern(3 * (64 << 10) + 1234, 1);
  write_file(folder.file("f"), data.data(), data.size());
  each_way([&](const Way &way) {
    Reading reading(way);
    reading.open(folder.file("f"), 1 << 20);
    struct Shape {
      size_t offset, bytes, target;
    };
    const Shape shapes[] = {{0, 1, 1},
                            {1, 4095, 300},
                            {4096, 4096, 5000},
                            {65535, 2, 10001},
                            {8192, 131072, 20000},
                            {data.size() - 1, 1, 200000},
                            {131071, 66001, 210003},
                            {77, 0, 5}};
    std::vector<sluice_read_range> ranges;
    for (const Shape &shape : shapes)
      ranges.push_back({reading.file, shape.offset, shape.bytes, reading.base() + shape.target,
                        nullptr, "shape"});
    REQUIRE(reading.read(ranges) == SLUICE_OK);
    for (const Shape &shape : shapes)
      CHECK(reading.device_bytes(shape.target, shape.bytes) ==
            part(data, shape.offset, shape.bytes));
  });
}

TEST_CASE("offsets beyond 4 GiB, with any alignment, in a sparse file") {
  const TemporaryFolder folder;
  const auto data = pattern(200000, 11);
  constexpr uint64_t kAt = (uint64_t{1} << 32) + 12345, kAcross = (uint64_t{1} << 32) - 70001;
  const auto write_at = [&](uint64_t offset) {
    std::fstream file(folder.file("f"), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(reinterpret_cast<const char *>(data.data()),
               static_cast<std::streamsize>(data.size()));
    REQUIRE(file.flush());
  };
  write_file(folder.file("f"), "", 0);
  std::filesystem::resize_file(folder.file("f"), (uint64_t{5} << 30) + 1);
  each_way([&](const Way &way) {
    Reading reading(way);
    reading.open(folder.file("f"), 1 << 20);
    for (const uint64_t offset : {kAt, kAcross}) {
      write_at(offset);
      std::vector<unsigned char> host(data.size());
      REQUIRE(reading.read({{reading.file, offset, data.size(), reading.base() + 1, nullptr, "far"},
                            {reading.file, offset, host.size(), 0, host.data(), "host"}}) ==
              SLUICE_OK);
      CHECK(reading.device_bytes(1, data.size()) == data);
      CHECK(host == data);
    }
    REQUIRE(reading.read({{reading.file, uint64_t{5} << 30, 1, reading.base(), nullptr, "end"}}) ==
            SLUICE_OK);
    CHECK(reading.device_bytes(0, 1) == std::vector<unsigned char>{0});
  });
}

TEST_CASE("host memory, pinned host memory, and both at once") {
  const TemporaryFolder folder;
  const auto data = pattern(200000, 2);
  write_file(folder.file("f"), data.data(), data.size());
  each_way([&](const Way &way) {
    Reading reading(way);
    reading.open(folder.file("f"), 1 << 20);
    std::vector<unsigned char> plain(150000), both(99999);
    void *pinned = nullptr, *direct = nullptr;
    REQUIRE(sluice_pinned_alloc(reading.session.device, 123457, 0, &pinned) == SLUICE_OK);
    REQUIRE(sluice_pinned_alloc(reading.session.device, 100000, 4096, &direct) == SLUICE_OK);
    REQUIRE(reading.read({{reading.file, 17, plain.size(), 0, plain.data(), nullptr},
                          {reading.file, 4096, 123457, reading.base() + 7, pinned, nullptr},
                          {reading.file, 8192, 100000, 0, direct, nullptr},
                          {reading.file, 1, both.size(), reading.base() + 300001, both.data(),
                           nullptr}}) == SLUICE_OK);
    CHECK(plain == part(data, 17, plain.size()));
    CHECK(both == part(data, 1, both.size()));
    CHECK(std::memcmp(pinned, data.data() + 4096, 123457) == 0);
    CHECK(std::memcmp(direct, data.data() + 8192, 100000) == 0);
    CHECK(reading.device_bytes(7, 123457) == part(data, 4096, 123457));
    CHECK(reading.device_bytes(300001, both.size()) == part(data, 1, both.size()));
    CHECK(sluice_pinned_free(reading.session.device, pinned) == SLUICE_OK);
    CHECK(sluice_pinned_free(reading.session.device, direct) == SLUICE_OK);
  });
}

TEST_CASE("many reads at once, cancelled ones among them") {
  const TemporaryFolder folder;
  const auto data = pattern(2 << 20, 6);
  write_file(folder.file("f"), data.data(), data.size());
  each_way([&](const Way &way) {
    Reading reading(way);
    reading.open(folder.file("f"), 16 << 20);
    std::vector<sluice_read *> reads;
    for (uint64_t i = 0; i < 7; ++i) {
      const sluice_read_range range{reading.file, i,      (2 << 20) - 7, reading.base() + (i << 21),
                                    nullptr,      nullptr};
      sluice_read *read = nullptr;
      REQUIRE(sluice_read_submit(reading.session.device, &range, 1, nullptr, nullptr, &read) ==
              SLUICE_OK);
      reads.push_back(read);
    }
    CHECK(sluice_file_close(reading.file) == SLUICE_BUSY);
    CHECK(sluice_read_cancel(reads[5]) == SLUICE_OK);
    for (uint64_t i = 0; i < 7; ++i) {
      const sluice_status status = sluice_read_wait(reads[i]);
      CHECK((status == SLUICE_OK || (i == 5 && status == SLUICE_CANCELLED)));
      CHECK(sluice_read_wait(reads[i]) == status);
      if (status == SLUICE_OK)
        CHECK(reading.device_bytes(i << 21, (2 << 20) - 7) == part(data, i, (2 << 20) - 7));
      sluice_read_release(reads[i]);
    }
    // A read that is released without a wait, and one whose buffer is destroyed under it: the
    // memory outlives the copies.
    sluice_buffer *other = nullptr;
    REQUIRE(sluice_buffer_create(reading.session.device, 2 << 20, &other) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(other, 2 << 20) == SLUICE_OK);
    const sluice_read_range under{reading.file, 0,      2 << 20, sluice_buffer_address(other),
                                  nullptr,      nullptr};
    sluice_read *orphan = nullptr;
    REQUIRE(sluice_read_submit(reading.session.device, &under, 1, nullptr, nullptr, &orphan) ==
            SLUICE_OK);
    sluice_buffer_destroy(other);
    CHECK(sluice_read_wait(orphan) == SLUICE_OK);
    sluice_read_release(orphan);
    const sluice_read_range range{reading.file, 0, 2 << 20, reading.base(), nullptr, nullptr};
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(reading.session.device, &range, 1, nullptr, nullptr, &read) ==
            SLUICE_OK);
    sluice_read_release(read);
  });
}

// The memory would go under the copies, and a context that faults is lost for good.
TEST_CASE("shrinking under a read, and reading past what is mapped, are refused") {
  const TemporaryFolder folder;
  const auto data = pattern(8 << 20, 10);
  write_file(folder.file("f"), data.data(), data.size());
  REQUIRE(fresh_driver());
  emulator::set()("H2D_BANDWIDTH", "200000000");
  {
    Reading reading({SLUICE_IO_AUTO, SLUICE_OFF, "13000"});
    reading.open(folder.file("f"), 8 << 20);
    const sluice_read_range range{reading.file, 0, 8 << 20, reading.base(), nullptr, nullptr};
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(reading.session.device, &range, 1, nullptr, nullptr, &read) ==
            SLUICE_OK);
    CHECK(sluice_buffer_shrink(reading.buffer, 0) == SLUICE_BUSY);
    CHECK(sluice_read_wait(read) == SLUICE_OK);
    sluice_read_release(read);
    CHECK(reading.read({{reading.file, 0, 4096, reading.base() + (8 << 20) - 4095, nullptr,
                         "past"}}) == SLUICE_INVALID_ARGUMENT);
    CHECK(last_error().find("'past'") != std::string::npos);
    CHECK(sluice_buffer_shrink(reading.buffer, 0) == SLUICE_OK);
    CHECK(reading.read({{reading.file, 0, 1, reading.base(), nullptr, nullptr}}) ==
          SLUICE_INVALID_ARGUMENT);
  }
  CHECK(fresh_driver());
  CHECK(first_misuse() == "");
}

// Some drivers refuse to register memory with codes that don't speak of memory.
TEST_CASE("pinning refused for good, with any code: the read goes on through pageable slots") {
  const TemporaryFolder folder;
  const auto data = pattern(300000, 12);
  write_file(folder.file("f"), data.data(), data.size());
  for (const char *code : {"1", "2", "800", "801", "999"}) {
    CAPTURE(code);
    REQUIRE(emulator::arm_fault()(
                (std::string("cuMemHostRegister:1:") + code + ":forever").c_str()) == 0);
    {
      Reading reading({SLUICE_IO_AUTO, SLUICE_AUTO, "13000"});
      reading.open(folder.file("f"), 1 << 20);
      REQUIRE(reading.read({{reading.file, 0, 300000, reading.base(), nullptr, nullptr}}) ==
              SLUICE_OK);
      CHECK(reading.device_bytes(0, 300000) == data);
      CHECK(reading.session.stats().pinned_peak_bytes == 0);
    }
    emulator::disarm_faults()();
  }
}

TEST_CASE("overlapping destinations are refused, those that touch are not") {
  const TemporaryFolder folder;
  write_file(folder.file("f"), "0123456789", 10);
  Reading reading({SLUICE_IO_AUTO, SLUICE_AUTO, "13000"});
  reading.open(folder.file("f"), 1 << 20);
  const auto device = [&](uint64_t at, uint64_t bytes, const char *name) {
    return sluice_read_range{reading.file, 0, bytes, reading.base() + at, nullptr, name};
  };
  const auto refused = [&](const std::vector<sluice_read_range> &ranges) {
    const sluice_status status = reading.read(ranges);
    const std::string text = last_error();
    CHECK(text.find("'one'") != std::string::npos);
    CHECK(text.find("'two'") != std::string::npos);
    return status == SLUICE_INVALID_ARGUMENT;
  };
  CHECK(refused({device(0, 10, "one"), device(9, 10, "two")}));
  CHECK(refused({device(200, 10, "one"), device(100, 10, "other"), device(195, 6, "two")}));
  CHECK(refused({device(7, 1, "one"), device(50, 1, "other"), device(0, 10, "two")}));
  CHECK(reading.read({device(10, 10, "one"), device(0, 10, "two"), device(5, 0, "empty"),
                      device(20, 4, "four")}) == SLUICE_OK);
  char host[20] = {};
  const auto on_host = [&](int at, uint64_t bytes, const char *name) {
    return sluice_read_range{reading.file, 0, bytes, 0, host + at, name};
  };
  CHECK(refused({on_host(5, 10, "one"), on_host(0, 6, "two")}));
  CHECK(reading.read({on_host(10, 10, "one"), on_host(0, 10, "two")}) == SLUICE_OK);
  CHECK(std::string(host, 20) == "01234567890123456789");
}

TEST_CASE("copying from the unmapped part of a buffer is refused, and nothing is lost") {
  {
    Session session;
    sluice_buffer *half = nullptr;
    REQUIRE(sluice_buffer_create(session.device, 8 << 20, &half) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(half, 2 << 20) == SLUICE_OK);
    char bytes[2];
    const auto copy = [&](uint64_t at) {
      return sluice_copy_to_host(session.device, sluice_buffer_address(half) + at, 2, nullptr,
                                 bytes);
    };
    CHECK(copy((2 << 20) - 1) == SLUICE_INVALID_ARGUMENT);
    CHECK(last_error().find("mapped part") != std::string::npos);
    CHECK(copy(4 << 20) == SLUICE_INVALID_ARGUMENT);
    CHECK(copy((2 << 20) - 2) == SLUICE_OK);
    sluice_buffer_destroy(half);
    // Whole handles are mapped: what lies past the maximum asked for is still the buffer's.
    REQUIRE(sluice_buffer_create(session.device, 1, &half) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(half, 1) == SLUICE_OK);
    CHECK(copy(sluice_buffer_size(half) - 1) == SLUICE_INVALID_ARGUMENT);
    CHECK(last_error().find("mapped part") != std::string::npos);
    sluice_buffer_destroy(half);
  }
  CHECK(leaks() == "");
  CHECK(first_misuse() == "");
}

// A copy to or from a wrong address costs the context, and the error names nothing.
TEST_CASE("addresses that aren't memory of the device are refused, and nothing is lost") {
  REQUIRE(fresh_driver(nullptr, "2"));
  {
    const TemporaryFolder folder;
    Session session;
    write_file(folder.file("f"), "abcdefgh", 8);
    sluice_device *other = nullptr;
    sluice_buffer *buffer = nullptr;
    sluice_file *file = nullptr;
    REQUIRE(sluice_device_open(session.runtime, 1, &other) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session.device, 4 << 20, &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, 2 << 20) == SLUICE_OK);
    REQUIRE(sluice_file_open(session.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
    char bytes[8];
    for (const uint64_t address : {sluice_buffer_address(buffer), uint64_t{0x999000}}) {
      const sluice_read_range range{file, 0, 8, address, nullptr, "weight"};
      sluice_read *read = nullptr;
      CHECK(sluice_read_submit(other, &range, 1, nullptr, nullptr, &read) ==
            SLUICE_INVALID_ARGUMENT);
      CHECK(last_error().find("'weight'") != std::string::npos);
      CHECK(last_error().find("not memory of GPU 1") != std::string::npos);
      CHECK(sluice_copy_to_host(other, address, 8, nullptr, bytes) == SLUICE_INVALID_ARGUMENT);
    }
    // The last byte counts too.
    const uint64_t before = sluice_buffer_address(buffer) - 4;
    CHECK(sluice_copy_to_host(session.device, before, 8, nullptr, bytes) ==
          SLUICE_INVALID_ARGUMENT);
    CHECK(sluice_copy_to_host(session.device, before + 4, 8, nullptr, bytes) == SLUICE_OK);
    CHECK(sluice_stream_synchronize(other, nullptr) == SLUICE_OK);
    sluice_buffer_destroy(buffer);
    CHECK(sluice_file_close(file) == SLUICE_OK);
    CHECK(sluice_device_close(other) == SLUICE_OK);
  }
  CHECK(leaks() == "");
  CHECK(first_misuse() == "");
  CHECK(fresh_driver());
}

TEST_CASE("bad ranges are refused and named") {
  const TemporaryFolder folder;
  write_file(folder.file("f"), "0123456789", 10);
  Reading reading({SLUICE_IO_AUTO, SLUICE_AUTO, "13000"});
  reading.open(folder.file("f"), 1 << 20);
  const auto refused = [&](sluice_read_range range, const char *word) {
    CHECK(reading.read({range}) == SLUICE_INVALID_ARGUMENT);
    CHECK(last_error().find(word) != std::string::npos);
  };
  refused({reading.file, 5, 6, reading.base(), nullptr, "w"}, "pass the end");
  refused({reading.file, UINT64_MAX, 1, reading.base(), nullptr, "w"}, "pass the end");
  refused({reading.file, 1, UINT64_MAX, reading.base(), nullptr, "w"}, "'w'");
  refused({nullptr, 0, 1, reading.base(), nullptr, nullptr}, "no file");
  refused({reading.file, 0, 1, 0, nullptr, nullptr}, "neither");
  refused({reading.file, 0, 4, UINT64_MAX - 2, nullptr, "w"}, "all addresses");
  sluice_read *read = nullptr;
  CHECK(sluice_read_submit(reading.session.device, nullptr, 1, nullptr, nullptr, &read) ==
        SLUICE_INVALID_ARGUMENT);
  const sluice_read_range empty{};
  CHECK(sluice_read_submit(reading.session.device, &empty, 0, nullptr, nullptr, &read) ==
        SLUICE_INVALID_ARGUMENT);
}

TEST_CASE("rings that may be made and not entered are refused rings") {
  if (!sluice::os_native().ring_submit) return;
  const TemporaryFolder folder;
  const auto data = pattern(5000, 3);
  write_file(folder.file("f"), data.data(), data.size());
  sluice::OsTable table = sluice::os_native();
  table.ring_submit = [](io_uring *, unsigned, uint32_t) { return -EPERM; };
  for (const sluice_io_backend io : {SLUICE_IO_URING, SLUICE_IO_AUTO}) {
    Reading reading({io, SLUICE_AUTO, "13000"});
    reading.open(folder.file("f"), 1 << 20);
    sluice::os_replace(&table);
    sluice_report report = SLUICE_REPORT_INIT;
    CHECK(sluice_report_get(reading.session.runtime, &report) == SLUICE_OK);
    const sluice_status status =
        reading.read({{reading.file, 0, 5000, reading.base(), nullptr, nullptr}});
    sluice::os_replace(nullptr);
    CHECK(!report.io_uring);
    CHECK(status == (io == SLUICE_IO_URING ? SLUICE_NOT_PERMITTED : SLUICE_OK));
    if (status == SLUICE_OK)
      CHECK(reading.device_bytes(0, 5000) == data);
    else
      CHECK(last_error().find("io_uring_enter") != std::string::npos);
  }
}

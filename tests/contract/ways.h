// Every way of reading, and a session with one file and one buffer that reads that way.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/session.h"

namespace support {

struct Way {
  sluice_io_backend io;
  sluice_switch direct;
  const char *version;
  uint32_t workers = 2;
};

inline constexpr const char *kDriverVersions[] = {"11080", "12040", "12080", "13000"};
inline constexpr uint64_t kSlot = 64 << 10;

inline sluice_options options_of(const Way &way) {
  sluice_options options = emulated_options();
  options.io = way.io;
  options.direct_io = way.direct;
  options.slot = kSlot;
  options.ring = 4 * options.slot;
  options.io_workers = way.workers;
  return options;
}

class Reading {
 public:
  explicit Reading(const Way &way) : session(options_of(way)) {
    REQUIRE(session.status() == SLUICE_OK);
  }
  ~Reading() {
    sluice_buffer_destroy(buffer);
    CHECK(sluice_file_close(file) == SLUICE_OK);
  }
  Reading(const Reading &) = delete;
  Reading &operator=(const Reading &) = delete;
  void open(const std::string &path, uint64_t device_bytes) {
    REQUIRE(sluice_file_open(session.runtime, path.c_str(), &file) == SLUICE_OK);
    REQUIRE(sluice_buffer_create(session.device, device_bytes, &buffer) == SLUICE_OK);
    REQUIRE(sluice_buffer_grow(buffer, device_bytes) == SLUICE_OK);
  }
  sluice_read *submit(const std::vector<sluice_read_range> &ranges, uint32_t timeout_ms = 0) {
    sluice_read_options options = SLUICE_READ_OPTIONS_INIT;
    options.timeout_ms = timeout_ms;
    sluice_read *read = nullptr;
    REQUIRE(sluice_read_submit(session.device, ranges.data(), ranges.size(), nullptr, &options,
                               &read) == SLUICE_OK);
    return read;
  }
  sluice_status finish(sluice_read *read) {
    const sluice_status status = sluice_read_wait(read);
    sluice_read_release(read);
    return status;
  }
  sluice_status read(const std::vector<sluice_read_range> &ranges) {
    sluice_read *read = nullptr;
    sluice_status status =
        sluice_read_submit(session.device, ranges.data(), ranges.size(), nullptr, nullptr, &read);
    if (status == SLUICE_OK) status = sluice_read_wait(read);
    sluice_read_release(read);
    return status;
  }
  std::vector<unsigned char> device_bytes(uint64_t offset, size_t bytes) {
    std::vector<unsigned char> copy(bytes);
    REQUIRE(sluice_copy_to_host(session.device, base() + offset, bytes, nullptr, copy.data()) ==
            SLUICE_OK);
    return copy;
  }
  uint64_t base() const { return sluice_buffer_address(buffer); }

  Session session;
  sluice_file *file = nullptr;
  sluice_buffer *buffer = nullptr;
};

inline std::vector<unsigned char> part(const std::vector<unsigned char> &data, size_t offset,
                                       size_t bytes) {
  return {data.begin() + static_cast<ptrdiff_t>(offset),
          data.begin() + static_cast<ptrdiff_t>(offset + bytes)};
}

template <typename Body>
void go_way(const Way &way, Body body) {
  CAPTURE(static_cast<int>(way.io));
  CAPTURE(static_cast<int>(way.direct));
  CAPTURE(way.version);
  emulator::set()("VERSION", way.version);
  body(way);
  CHECK(leaks() == "");
  CHECK(first_misuse() == "");
}

template <typename Body>
void each_way(Body body) {
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS})
    for (const sluice_switch direct : {SLUICE_ON, SLUICE_OFF, SLUICE_AUTO})
      for (const char *version : kDriverVersions) go_way({io, direct, version}, body);
}

// The same, with the driver's versions in turn: for what has nothing to do with the driver.
template <typename Body>
void each_file_way(Body body) {
  size_t version = 0;
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS})
    for (const sluice_switch direct : {SLUICE_ON, SLUICE_OFF, SLUICE_AUTO})
      go_way({io, direct, kDriverVersions[version++ % std::size(kDriverVersions)]}, body);
}

}  // namespace support

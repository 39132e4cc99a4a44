#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "runtime/budget.h"
#include "tests/support/files.h"
#include "tests/support/process.h"
#include "tests/support/session.h"

using namespace support;

TEST_CASE("a driver that isn't there is named, with what to do") {
  sluice_options options = emulated_options();
  options.driver = "/nowhere/libcuda.so.1";
  sluice_runtime *runtime = nullptr;
  CHECK(sluice_runtime_create(&options, &runtime) == SLUICE_NO_DRIVER);
  CHECK(runtime == nullptr);
  CHECK(last_error().find("/nowhere/libcuda.so.1") != std::string::npos);
  CHECK(last_error().find("'emulated'") != std::string::npos);
}

TEST_CASE("a driver that is too old is named by its version") {
  std::string path = SLUICE_EMULATED_DRIVER_PATH;
  for (const char *version : {"11070", "11000"}) {
    REQUIRE(fresh_driver());
    emulator::set()("VERSION", version);
    path.insert(path.rfind('/'), "/.");  // drivers are opened once a path: another one each time
    sluice_options options = emulated_options();
    options.driver = path.c_str();
    Session session(options);
    CHECK(session.status() == SLUICE_DRIVER_TOO_OLD);
    CHECK(last_error().find("CUDA 11.") != std::string::npos);
    CHECK(last_error().find("cuInit") == std::string::npos);
  }
  CHECK(fresh_driver());
}

TEST_CASE("no GPU of that number") {
  Session session(emulated_options(), 7);
  CHECK(session.status() == SLUICE_NO_DEVICE);
  CHECK(last_error().find("GPU 7") != std::string::npos);
}

TEST_CASE("without a driver files can be read, devices are refused") {
  sluice_options options = emulated_options();
  options.driver = "none";
  sluice_runtime *runtime = nullptr;
  REQUIRE(sluice_runtime_create(&options, &runtime) == SLUICE_OK);
  sluice_device *device = nullptr;
  CHECK(sluice_device_open(runtime, 0, &device) == SLUICE_INVALID_STATE);
  CHECK(sluice_runtime_destroy(runtime) == SLUICE_OK);
}

TEST_CASE("what is still open keeps its owner open") {
  const TemporaryFolder folder;
  write_file(folder.file("f"), "x", 1);
  Session session;
  REQUIRE(session.status() == SLUICE_OK);
  sluice_device *again = nullptr;
  REQUIRE(sluice_device_open(session.runtime, 0, &again) == SLUICE_OK);
  CHECK(again == session.device);
  CHECK(sluice_device_close(again) == SLUICE_OK);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 1, &buffer) == SLUICE_OK);
  CHECK(sluice_device_close(session.device) == SLUICE_BUSY);
  CHECK(support::last_error().find("GPU 0 is still in use: 1 buffer") != std::string::npos);
  CHECK(sluice_runtime_destroy(session.runtime) == SLUICE_BUSY);
  CHECK(support::last_error().find("1 device") != std::string::npos);
  sluice_buffer_destroy(buffer);
  sluice_file *file = nullptr;
  REQUIRE(sluice_file_open(session.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
  CHECK(sluice_device_close(session.device) == SLUICE_OK);
  session.device = nullptr;
  CHECK(sluice_runtime_destroy(session.runtime) == SLUICE_BUSY);
  CHECK(support::last_error().find("1 file (") != std::string::npos);
  CHECK(sluice_file_close(file) == SLUICE_OK);
}

TEST_CASE("NULL is answered, not followed") {
  CHECK(sluice_runtime_destroy(nullptr) == SLUICE_OK);
  CHECK(sluice_device_close(nullptr) == SLUICE_OK);
  CHECK(sluice_file_close(nullptr) == SLUICE_OK);
  sluice_buffer_destroy(nullptr);
  sluice_read_release(nullptr);
  sluice_device *device = nullptr;
  CHECK(sluice_device_open(nullptr, 0, &device) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_runtime_create(nullptr, nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_buffer_grow(nullptr, 1) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_read_wait(nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_stream_forget(nullptr, nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_stats_get(nullptr, nullptr) == SLUICE_INVALID_ARGUMENT);
  sluice_stats stats = SLUICE_STATS_INIT;
  stats.reads = 5;
  CHECK(sluice_stats_get(nullptr, &stats) == SLUICE_INVALID_ARGUMENT);
  CHECK(stats.reads == 0);
}

TEST_CASE("a second runtime on the same driver, and again after the first is gone") {
  for (int round = 0; round < 3; ++round) {
    Session one, two;
    CHECK(one.status() == SLUICE_OK);
    CHECK(two.status() == SLUICE_OK);
    CHECK(one.device != two.device);
  }
  CHECK(leaks() == "");
}

TEST_CASE("the caller's context is the same after each call") {
  Session session;
  auto *current = reinterpret_cast<int (*)(void **)>(emulator_symbol("cuCtxGetCurrent"));
  void *context = &session;
  REQUIRE(current(&context) == 0);
  CHECK(context == nullptr);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 4096, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 4096) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
  REQUIRE(current(&context) == 0);
  CHECK(context == nullptr);
}

TEST_CASE("log lines go to the sink, with their part, and none below the level") {
  std::vector<std::string> lines;
  sluice_options options = emulated_options();
  options.log_level = SLUICE_LOG_INFO;
  options.log_user = &lines;
  options.log_function = [](void *user, sluice_log_level, const char *line) {
    static_cast<std::vector<std::string> *>(user)->push_back(line);
  };
  { Session session(options); }
  REQUIRE(!lines.empty());
  for (const std::string &line : lines) CHECK(line.rfind("[sluice][", 0) == 0);
  lines.clear();
  options.log_level = SLUICE_LOG_ERROR;
  { Session session(options); }
  CHECK(lines.empty());
}

// exit() runs while threads read and memory is mapped; nothing may hang or call the driver.
TEST_CASE("a process that exits in the middle") {
  const TemporaryFolder folder;
  const auto data = pattern(1 << 20, 1);
  write_file(folder.file("f"), data.data(), data.size());
  CHECK(run_self({"--test-case=child: exits in the middle", "--no-skip"}) == 42);
}

TEST_CASE("child: exits in the middle" * doctest::skip()) {
  static Session session;
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 4 << 20, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 4 << 20) == SLUICE_OK);
  sluice_file *file = nullptr;
  REQUIRE(sluice_file_open(session.runtime, own_program().c_str(), &file) == SLUICE_OK);
  const sluice_read_range range{file, 0, 4096, sluice_buffer_address(buffer), nullptr, nullptr};
  sluice_read *read = nullptr;
  REQUIRE(sluice_read_submit(session.device, &range, 1, nullptr, nullptr, &read) == SLUICE_OK);
  std::exit(42);
}

TEST_CASE("a budget holds at all times") {
  sluice::Budget budget(100);
  CHECK(budget.try_charge(60));
  CHECK(!budget.try_charge(41));
  CHECK(budget.try_charge(40));
  budget.note_peak();
  budget.set_limit(50);
  CHECK(!budget.try_charge(1));
  CHECK(budget.room() == 0);
  budget.release(60);
  CHECK(budget.room() == 10);
  CHECK(!budget.try_charge(UINT64_MAX));
  CHECK(budget.peak() == 100);
}

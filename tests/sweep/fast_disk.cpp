// Asking whether weights may leave RAM, while the k-th driver call or system call fails.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>

#include "runtime/os.h"
#include "tests/support/process.h"
#include "tests/sweep/load_job.h"

namespace {

using namespace support;

std::atomic<int> countdown{0};

int64_t failing_read(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  if (countdown.fetch_sub(1) == 1) return -EIO;
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}
int failing_map(size_t bytes, void **out) {
  if (countdown.fetch_sub(1) == 1) return -ENOMEM;
  return sluice::os_native().map_memory(bytes, out);
}
int failing_thread(void (*body)(void *), void *argument, uint64_t *out_thread) {
  if (countdown.fetch_sub(1) == 1) return -EAGAIN;
  return sluice::os_native().thread_start(body, argument, out_thread);
}

// The status of an answer; what was made for it is given back.
sluice_status ask(const SweepInput &input) {
  sluice_options options = emulated_options();
  options.io = SLUICE_IO_THREADS;
  options.io_workers = 2;
  options.slot = 16 << 20;  // few pieces, so few calls
  options.ring = 2 * options.slot;
  const Session session(options);
  if (session.status() != SLUICE_OK) return session.status();
  sluice_checkpoint *checkpoint = nullptr;
  sluice_status status = sluice_checkpoint_open(session.runtime, input.path.c_str(), &checkpoint);
  if (status == SLUICE_OK) {
    sluice_fast_disk_info info = SLUICE_FAST_DISK_INFO_INIT;
    status = sluice_checkpoint_fast_disk(checkpoint, session.device, &info);
  }
  while (sluice_checkpoint_close(checkpoint) != SLUICE_OK) {
  }
  return status;
}

void check_nothing_left() {
  CHECK(leaks() == "");
  CHECK(first_misuse() == "");
}

}  // namespace

TEST_CASE("every driver call of it fails once") {
  REQUIRE(fresh_driver());
  const SweepInput input;
  uint64_t fired_before = emulator::faults_fired()();
  for (int k = 1; k < 2000; ++k) {
    REQUIRE(emulator::arm_fault()(("*:" + std::to_string(k) + ":2").c_str()) == 0);
    const sluice_status status = ask(input);
    emulator::disarm_faults()();
    const bool fired =
        emulator::faults_fired()() != std::exchange(fired_before, emulator::faults_fired()());
    INFO("call ", k, ": ", last_error());
    CHECK(status != SLUICE_INTERNAL);
    check_nothing_left();
    if (!fired) {
      CHECK(status == SLUICE_OK);
      MESSAGE("calls: ", k - 1);
      return;
    }
  }
  FAIL("the sweep does not come to an end");
}

TEST_CASE("every system call of it fails once") {
  REQUIRE(fresh_driver());
  const SweepInput input;
  sluice::OsTable table = sluice::os_native();
  table.read_at = failing_read;
  table.map_memory = failing_map;
  table.thread_start = failing_thread;
  const size_t descriptors = open_descriptors(), threads = running_threads();
  for (int k = 1; k < 200; ++k) {
    countdown = k;
    sluice::os_replace(&table);
    const sluice_status status = ask(input);
    sluice::os_replace(nullptr);
    INFO("call ", k, ": ", last_error());
    CHECK(status != SLUICE_INTERNAL);
    check_nothing_left();
    CHECK(open_descriptors() == descriptors);
    CHECK(running_threads() == threads);
    if (countdown.load() > 0) {
      CHECK(status == SLUICE_OK);
      MESSAGE("calls: ", k - 1);
      return;
    }
  }
  FAIL("the sweep does not come to an end");
}

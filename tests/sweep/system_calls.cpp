// The k-th operating-system call of a whole load fails, for each k until one passes untouched.
#include <doctest/doctest.h>

#include <atomic>
#include <cerrno>

#include "runtime/os.h"
#include "tests/support/process.h"
#include "tests/sweep/load_job.h"

namespace {

using namespace support;
using sluice::OsTable;

std::atomic<int> countdown{0};
std::atomic<int> error_to_give{0};
std::atomic<bool> fired{false};

bool fails() {
  if (countdown.load() <= 0 || countdown.fetch_sub(1) != 1) return false;
  fired = true;
  return true;
}

// A row that fails does nothing, as the system's call would; close alone has closed nonetheless.
template <auto member>
struct Row;
template <typename Result, typename... Args, Result (*OsTable::*member)(Args...)>
struct Row<member> {
  static constexpr bool is_close() {
    if constexpr (std::is_same_v<Result (*OsTable::*)(Args...), int (*OsTable::*)(int)>)
      return member == &OsTable::close;
    else
      return false;
  }
  static Result call(Args... args) {
    if constexpr (is_close()) {
      const Result result = (sluice::os_native().*member)(args...);
      return fails() ? static_cast<Result>(-error_to_give.load()) : result;
    } else if constexpr (std::is_void_v<Result>) {
      (sluice::os_native().*member)(args...);
    } else {
      if (fails()) return static_cast<Result>(-error_to_give.load());
      return (sluice::os_native().*member)(args...);
    }
  }
};

const OsTable &faulty() {
  static const OsTable table{Row<&OsTable::open_read>::call,
                             Row<&OsTable::reopen_direct>::call,
                             Row<&OsTable::close>::call,
                             Row<&OsTable::file_facts>::call,
                             Row<&OsTable::read_at>::call,
                             Row<&OsTable::read_uncached>::call,
                             Row<&OsTable::drop_cached>::call,
                             Row<&OsTable::cached_bytes>::call,
                             Row<&OsTable::map_memory>::call,
                             Row<&OsTable::unmap_memory>::call,
                             Row<&OsTable::advise>::call,
                             Row<&OsTable::ring_init>::call,
                             Row<&OsTable::ring_register_buffers>::call,
                             Row<&OsTable::ring_register_files>::call,
                             Row<&OsTable::ring_update_file>::call,
                             Row<&OsTable::ring_submit>::call,
                             Row<&OsTable::ring_exit>::call,
                             Row<&OsTable::port_open>::call,
                             Row<&OsTable::port_add_file>::call,
                             Row<&OsTable::port_read>::call,
                             Row<&OsTable::port_wait>::call,
                             Row<&OsTable::port_close>::call,
                             Row<&OsTable::thread_start>::call,
                             Row<&OsTable::thread_detach>::call,
                             Row<&OsTable::thread_join>::call,
                             Row<&OsTable::completion>::call};
  return table;
}

struct Held {
  size_t descriptors = open_descriptors();
  size_t threads = running_threads();
  bool operator==(const Held &) const = default;
};

void sweep(const SweepInput &input, const sluice_options &options, int error_number) {
  const Held before;
  int absorbed = 0;
  for (int k = 1; k < 2000; ++k) {
    error_to_give = error_number;
    fired = false;
    countdown = k;
    sluice::os_replace(&faulty());
    const JobResult result = run_load(input, options);
    sluice::os_replace(nullptr);
    countdown = 0;
    INFO("errno ", error_number, ", call ", k, ": ", last_error());
    CHECK(!result.wrong_bytes);
    CHECK(result.status != SLUICE_INTERNAL);
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
    CHECK(Held() == before);
    if (k % 8 == 0) CHECK(run_load(input, options).status == SLUICE_OK);
    if (!fired) {
      CHECK(result.status == SLUICE_OK);
      MESSAGE("errno ", error_number, ": ", k - 1, " calls, ", absorbed, " absorbed");
      return;
    }
    absorbed += result.status == SLUICE_OK;
  }
  FAIL("the sweep does not come to an end");
}

}  // namespace

TEST_CASE("every system call fails once") {
  emulator::set()("MISUSE", "log");
  const SweepInput input;
  sluice_options options = three_slots();
  REQUIRE(run_load(input, options).status == SLUICE_OK);
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS}) {
    for (const sluice_switch direct : {SLUICE_ON, SLUICE_OFF}) {
      options.io = io;
      options.direct_io = direct;
      for (const int error_number : {EIO, EINTR, EINVAL, ENOMEM, EPERM})
        sweep(input, options, error_number);
    }
  }
  const SweepInput gguf(true);
  for (const int error_number : {EIO, EINTR, ENOMEM}) sweep(gguf, options, error_number);
}

// The k-th driver call of a whole load fails, for each k until one passes untouched, with codes
// that mean different things. Each time: the right bytes or a typed error, nothing leaked or
// misused, and the next load works.
#include <doctest/doctest.h>

#include "tests/sweep/load_job.h"

namespace {

using namespace support;

void sweep(const SweepInput &input, const sluice_options &options, int code) {
  uint64_t fired_before = emulator::faults_fired()();
  int passed_with_fault = 0;
  for (int k = 1; k < 2000; ++k) {
    const std::string fault = "*:" + std::to_string(k) + ":" + std::to_string(code);
    REQUIRE(emulator::arm_fault()(fault.c_str()) == 0);
    const JobResult result = run_load(input, options);
    emulator::disarm_faults()();
    const uint64_t fired = emulator::faults_fired()();
    INFO("code ", code, ", call ", k, ": ", last_error());
    CHECK(!result.wrong_bytes);
    CHECK(result.status != SLUICE_INTERNAL);
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
    if (k % 8 == 0) {
      const JobResult next = run_load(input, options);
      CHECK(next.status == SLUICE_OK);
      CHECK(!next.wrong_bytes);
    }
    if (fired == fired_before) {
      CHECK(result.status == SLUICE_OK);
      MESSAGE("code ", code, ": ", k - 1, " calls, ", passed_with_fault, " absorbed");
      return;
    }
    fired_before = fired;
    passed_with_fault += result.status == SLUICE_OK;
  }
  FAIL("the sweep does not come to an end");
}

}  // namespace

TEST_CASE("every driver call fails once") {
  emulator::set()("MISUSE", "log");
  const SweepInput input;
  sluice_options options = three_slots();
  REQUIRE(run_load(input, options).status == SLUICE_OK);
  for (const int code :
       {2 /* out of memory */, 1 /* invalid value */, 600 /* not ready */, 999 /* unknown */}) {
    sweep(input, options, code);
  }
  options.io = SLUICE_IO_THREADS;
  options.direct_io = SLUICE_ON;
  sweep(input, options, 999);
}

// The k-th allocation of a whole load fails, for each k until one passes untouched; what was
// allocated is counted, so that nothing may stay behind.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/sweep/load_job.h"

namespace {

std::atomic<long> countdown{0};
std::atomic<bool> fired{false};
std::atomic<long> outstanding{0};

void *allocate(size_t bytes, size_t alignment) {
  if (countdown.load(std::memory_order_relaxed) > 0 && countdown.fetch_sub(1) == 1) {
    fired = true;
    return nullptr;
  }
  void *memory =
      alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)
                : std::malloc(bytes ? bytes : 1);
  if (memory) outstanding.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void *allocate_or_throw(size_t bytes, size_t alignment) {
  void *memory = allocate(bytes, alignment);
  if (!memory) throw std::bad_alloc();
  return memory;
}

void release(void *memory) {
  if (memory) outstanding.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

}  // namespace

void *operator new(size_t bytes) { return allocate_or_throw(bytes, 0); }
void *operator new[](size_t bytes) { return allocate_or_throw(bytes, 0); }
void *operator new(size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes, 0); }
void *operator new[](size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes, 0); }
void *operator new(size_t bytes, std::align_val_t a) {
  return allocate_or_throw(bytes, static_cast<size_t>(a));
}
void operator delete(void *memory) noexcept { release(memory); }
void operator delete[](void *memory) noexcept { release(memory); }
void operator delete(void *memory, size_t) noexcept { release(memory); }
void operator delete[](void *memory, size_t) noexcept { release(memory); }
void operator delete(void *memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void *memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace {

using namespace support;

void sweep(const SweepInput &input, const sluice_options &options) {
  int absorbed = 0;
  for (long k = 1; k < 20000; ++k) {
    const long before = outstanding;
    fired = false;
    countdown = k;
    const JobResult result = run_load(input, options);
    countdown = 0;
    const long after = outstanding;
    INFO("allocation ", k, ": ", last_error());
    CHECK(!result.wrong_bytes);
    CHECK((result.status == SLUICE_OK || result.status == SLUICE_OUT_OF_HOST_MEMORY));
    CHECK(leaks() == "");
    CHECK(first_misuse() == "");
    CHECK(after == before);
    if (!fired) {
      CHECK(result.status == SLUICE_OK);
      MESSAGE((k - 1), " allocations, ", absorbed, " absorbed");
      return;
    }
    absorbed += result.status == SLUICE_OK;
  }
  FAIL("the sweep does not come to an end");
}

}  // namespace

TEST_CASE("every allocation fails once") {
  emulator::set()("MISUSE", "log");
  const SweepInput input;
  sluice_options options = three_slots();
  REQUIRE(run_load(input, options).status == SLUICE_OK);
  sweep(input, options);
  options.io = SLUICE_IO_THREADS;
  sweep(input, options);
  sweep(SweepInput(true), options);
}

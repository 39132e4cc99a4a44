#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "runtime/limits.h"
#include "tests/support/session.h"

using namespace support;
using sluice::kMiB;

TEST_CASE("small pinned allocations come from registered arenas, and all goes back") {
  for (int round = 0; round < 3; ++round) {
    Session session;
    std::vector<void *> all;
    for (int i = 0; i < 300; ++i) {
      void *memory = nullptr;
      REQUIRE(sluice_pinned_alloc(session.device, 1 + static_cast<uint64_t>(i) * 97, 0, &memory) ==
              SLUICE_OK);
      std::memset(memory, i, 1 + static_cast<size_t>(i) * 97);
      all.push_back(memory);
    }
    CHECK(live().registered_bytes == 32 * kMiB);
    CHECK(session.stats().pinned_bytes == 32 * kMiB);
    CHECK(sluice_device_close(session.device) == SLUICE_BUSY);
    for (size_t i = 0; i < all.size(); ++i)
      CHECK(static_cast<unsigned char *>(all[i])[i] == static_cast<unsigned char>(i));
    // From another thread than that which allocated.
    std::thread([&] {
      for (void *memory : all) CHECK(sluice_pinned_free(session.device, memory) == SLUICE_OK);
    }).join();
  }
  CHECK(leaks() == "");
}

TEST_CASE("what was not allocated here, or is free already, is refused") {
  Session session;
  int local = 0;
  CHECK(sluice_pinned_free(session.device, &local) == SLUICE_INVALID_ARGUMENT);
  void *memory = nullptr;
  REQUIRE(sluice_pinned_alloc(session.device, 64, 0, &memory) == SLUICE_OK);
  CHECK(sluice_pinned_free(session.device, &local) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_pinned_free(session.device, memory) == SLUICE_OK);
  CHECK(sluice_pinned_free(session.device, memory) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_pinned_free(session.device, nullptr) == SLUICE_OK);
}

TEST_CASE("alignment and bounds") {
  Session session;
  void *memory = nullptr;
  for (const uint64_t alignment : {uint64_t{16}, uint64_t{4096}, 2 * kMiB}) {
    REQUIRE(sluice_pinned_alloc(session.device, 100, alignment, &memory) == SLUICE_OK);
    CHECK(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
    CHECK(sluice_pinned_free(session.device, memory) == SLUICE_OK);
  }
  CHECK(sluice_pinned_alloc(session.device, 0, 0, &memory) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_pinned_alloc(session.device, 17 * kMiB, 0, &memory) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_pinned_alloc(session.device, 1, 3, &memory) == SLUICE_INVALID_ARGUMENT);
  CHECK(memory == nullptr);
}

TEST_CASE("the pinned cap holds, live; the driver's refusal is told apart from it") {
  sluice_options options = emulated_options();
  options.pinned_limit = 40 * kMiB;
  Session session(options);
  std::vector<void *> all;
  void *memory = nullptr;
  sluice_status status = SLUICE_OK;
  while ((status = sluice_pinned_alloc(session.device, 4 * kMiB, 0, &memory)) == SLUICE_OK)
    all.push_back(memory);
  CHECK(status == SLUICE_LIMIT_REACHED);
  CHECK(last_error().find("--pinned-limit") != std::string::npos);
  CHECK(all.size() >= 4);
  CHECK(live().registered_bytes == 32 * kMiB);
  REQUIRE(sluice_runtime_set_pinned_limit(session.runtime, SLUICE_NO_LIMIT) == SLUICE_OK);
  REQUIRE(emulator::set()("PINNED_LIMIT", "40MiB") == 0);
  while ((status = sluice_pinned_alloc(session.device, 4 * kMiB, 0, &memory)) == SLUICE_OK)
    all.push_back(memory);
  CHECK(status == SLUICE_OUT_OF_PINNED_MEMORY);
  emulator::set()("PINNED_LIMIT", nullptr);
  REQUIRE(sluice_pinned_alloc(session.device, 4 * kMiB, 0, &memory) == SLUICE_OK);
  all.push_back(memory);
  for (void *one : all) CHECK(sluice_pinned_free(session.device, one) == SLUICE_OK);
}

// A heap of each thread's own would take an arena for each.
TEST_CASE("threads share arenas") {
  Session session;
  std::vector<std::thread> threads;
  std::vector<void *> all(32);
  for (size_t i = 0; i < all.size(); ++i)
    threads.emplace_back(
        [&, i] { CHECK(sluice_pinned_alloc(session.device, 64 << 10, 0, &all[i]) == SLUICE_OK); });
  for (std::thread &thread : threads) thread.join();
  CHECK(live().registered_bytes == 32 * kMiB);
  for (void *memory : all) CHECK(sluice_pinned_free(session.device, memory) == SLUICE_OK);
}

TEST_CASE("many short threads allocate and free for each other") {
  Session session;
  std::mutex mutex;
  std::vector<void *> shared;
  for (int generation = 0; generation < 10; ++generation) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) {
          void *memory = nullptr;
          REQUIRE(sluice_pinned_alloc(session.device, 3000, 64, &memory) == SLUICE_OK);
          std::memset(memory, 1, 3000);
          const std::lock_guard lock(mutex);
          shared.push_back(memory);
          if (shared.size() > 100) {
            CHECK(sluice_pinned_free(session.device, shared.front()) == SLUICE_OK);
            shared.erase(shared.begin());
          }
        }
      });
    for (std::thread &thread : threads) thread.join();
  }
  CHECK(session.stats().registrations <= 8);
  for (void *memory : shared) CHECK(sluice_pinned_free(session.device, memory) == SLUICE_OK);
}

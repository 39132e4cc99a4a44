#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/session.h"

using namespace support;

// The threads, locks and contexts of the parent don't exist in the child: a call there would hang
// or corrupt the parent's GPU state.
TEST_CASE("a forked child is refused, and the parent goes on") {
  Session session;
  REQUIRE(session.status() == SLUICE_OK);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 4096, &buffer) == SLUICE_OK);
  const pid_t child = fork();
  if (child == 0) {
    bool good = sluice_buffer_grow(buffer, 4096) == SLUICE_FORKED;
    sluice_runtime *runtime = nullptr;
    good = good && sluice_runtime_create(nullptr, &runtime) == SLUICE_FORKED;
    sluice_buffer_destroy(buffer);
    good = good && sluice_device_close(session.device) == SLUICE_OK;
    _exit(good ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(sluice_buffer_grow(buffer, 4096) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
}

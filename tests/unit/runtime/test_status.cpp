#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "runtime/status.h"
#include "tests/support/session.h"

using namespace sluice;

TEST_CASE("each status has a name, a sentence and a number of its own") {
  std::set<int> numbers;
#define SLUICE_SEE(name, number, sentence)                           \
  CHECK(std::string(sluice_status_name(SLUICE_##name)) == #name);    \
  CHECK(std::string(sluice_status_text(SLUICE_##name)) == sentence); \
  CHECK(numbers.insert(number).second);
  SLUICE_STATUS_LIST(SLUICE_SEE)
#undef SLUICE_SEE
  CHECK(std::string(sluice_status_name(31)) == "UNKNOWN");
}

TEST_CASE("a failure is in the record of its own thread, with call and code") {
  CHECK(publish(system_error("open", EMFILE, "model")) == SLUICE_OUT_OF_FILE_DESCRIPTORS);
  std::thread([] {
    sluice_error other = SLUICE_ERROR_INIT;
    CHECK(sluice_error_get(&other) == SLUICE_OK);
    CHECK(other.status == SLUICE_OK);
  }).join();
  sluice_error error = SLUICE_ERROR_INIT;
  REQUIRE(sluice_error_get(&error) == SLUICE_OK);
  CHECK(error.code == EMFILE);
  CHECK(error.domain == SLUICE_DOMAIN_SYSTEM);
  CHECK(std::string(error.call) == "open");
  CHECK(std::string(error.message).find("ulimit -n") != std::string::npos);
  CHECK(sluice_error_get(nullptr) == SLUICE_INVALID_ARGUMENT);
}

TEST_CASE("messages longer than the record are cut, not overrun") {
  const std::string path(5000, 'p');
  CHECK(publish(system_error("open", ENOENT, path)) == SLUICE_NOT_FOUND);
  sluice_error error = SLUICE_ERROR_INIT;
  REQUIRE(sluice_error_get(&error) == SLUICE_OK);
  CHECK(std::strlen(error.message) == sizeof error.message - 1);
}

TEST_CASE("kinds of memory are told apart") {
  CHECK(system_error("x", ENOMEM, "").code() == SLUICE_OUT_OF_HOST_MEMORY);
  CHECK(system_error("x", EPERM, "").code() == SLUICE_NOT_PERMITTED);
  CHECK(system_error("x", EIO, "").code() == SLUICE_IO_ERROR);
  CHECK(Status::out_of_host_memory().code() == SLUICE_OUT_OF_HOST_MEMORY);
}

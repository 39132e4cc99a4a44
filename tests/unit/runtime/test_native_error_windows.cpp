#include <windows.h>

#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <thread>

#include "runtime/native_error.h"
#include "runtime/os.h"
#include "runtime/status.h"
#include "runtime/wide_text_windows.h"

using namespace sluice;

TEST_CASE("a failed row tells Windows' own code: a file that another program has locked") {
  const std::string path = "locked-\u00fc.bin";
  const HANDLE owner = CreateFileW(wide(path).c_str(), GENERIC_WRITE, 0, nullptr, CREATE_ALWAYS,
                                   FILE_FLAG_DELETE_ON_CLOSE, nullptr);
  REQUIRE(owner != INVALID_HANDLE_VALUE);
  const int result = os().open_read(path.c_str());
  CHECK(result == -EACCES);
  const Status status = system_error("open", -result, path);
  CHECK(status.code() == SLUICE_NOT_PERMITTED);
  CHECK(status.record().domain == SLUICE_DOMAIN_WINDOWS);
  CHECK(status.record().native_code == ERROR_SHARING_VIOLATION);
  CHECK(status.record().message.find(path) != std::string::npos);
  CHECK(status.record().message.find("(Windows error 32)") != std::string::npos);
  CHECK(status.record().message.find("another program") != std::string::npos);
  CloseHandle(owner);
}

TEST_CASE("a code is told once, with its own errno, on its own thread") {
  CHECK(failed_with(ERROR_FILE_NOT_FOUND) == -ENOENT);
  std::thread([] { CHECK(!take_native_error(ENOENT)); }).join();
  CHECK(take_native_error(ENOENT)->code == ERROR_FILE_NOT_FOUND);
  CHECK(!take_native_error(ENOENT));
  CHECK(failed_with(ERROR_PATH_NOT_FOUND) == -ENOENT);
  CHECK(!take_native_error(EIO));
  const Status injected = system_error("read", EIO, "x");
  CHECK(injected.record().domain == SLUICE_DOMAIN_SYSTEM);
  CHECK(injected.record().native_code == EIO);
}

// How one read goes on when the system refuses the way it was asked for, also while another one of
// the same file finds that out.
#include <doctest.h>

#include <cerrno>

#include "io/read_operation.h"
#include "runtime/runtime.h"
#include "tests/support/files.h"
#include "tests/support/session.h"

namespace {

using sluice::ReadOperation;
using sluice::ReadStep;

constexpr uint32_t kBytes = 4096;

struct OpenFile {
  OpenFile() {
    options.driver = "none";
    REQUIRE(sluice_runtime_create(&options, &runtime) == SLUICE_OK);
    const auto data = support::pattern(kBytes, 1);
    const std::string path = folder.file("data");
    support::write_file(path, data.data(), data.size());
    REQUIRE(sluice_file_open(runtime, path.c_str(), &handle) == SLUICE_OK);
  }
  ~OpenFile() {
    sluice_file_close(handle);
    sluice_runtime_destroy(runtime);
  }
  ReadOperation read() const {
    ReadOperation operation;
    operation.file = handle->file;
    operation.length_bytes = operation.needed_bytes = kBytes;
    return operation;
  }

  support::TemporaryFolder folder;
  sluice_options options = support::emulated_options();
  sluice_runtime *runtime = nullptr;
  sluice_file *handle = nullptr;
};

}  // namespace

TEST_CASE("a refused flag is given up by each read that was asked for with it") {
  const OpenFile file;
  ReadOperation first = file.read(), second = file.read(), third = file.read();
  first.uncached = second.uncached = third.uncached = true;
  first.choose();
  second.choose();
  CHECK(first.asked_uncached);
  CHECK(first.advance(-EOPNOTSUPP) == ReadStep::kAgain);
  CHECK(second.advance(-EOPNOTSUPP) == ReadStep::kAgain);
  for (ReadOperation *each : {&first, &second, &third}) {
    each->choose();
    CHECK_FALSE(each->asked_uncached);
    CHECK(each->advance(kBytes) == ReadStep::kDone);
  }
}

TEST_CASE("without the flag the same answer is an error of the file") {
  const OpenFile file;
  ReadOperation read = file.read();
  read.choose();
  CHECK(read.advance(-EOPNOTSUPP) == ReadStep::kFailed);
  CHECK(read.failure().code() == SLUICE_NOT_SUPPORTED);
}

TEST_CASE("refused direct reads go on buffered, each of those under way") {
  const OpenFile file;
  ReadOperation first = file.read(), second = file.read(), third = file.read();
  first.direct = second.direct = third.direct = true;
  first.choose();
  second.choose();
  if (!first.direct) return;  // this file system has none
  CHECK(first.advance(-EINVAL) == ReadStep::kAgain);
  CHECK(second.advance(-EINVAL) == ReadStep::kAgain);
  for (ReadOperation *each : {&first, &second, &third}) {
    CHECK(each->choose() == each->file->buffered());
    CHECK(each->advance(kBytes) == ReadStep::kDone);
  }
}

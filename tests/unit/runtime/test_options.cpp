#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "runtime/limits.h"
#include "runtime/options.h"
#include "tests/support/process.h"
#include "tests/support/session.h"

using namespace sluice;

namespace {

uint64_t size_of(const char *text) {
  uint64_t bytes = 0;
  return sluice_parse_size(text, &bytes) == SLUICE_OK ? bytes : UINT64_MAX - 1;
}

struct Environment {
  Environment(const char *name, const char *value) : name_(name) {
    support::set_environment(name, value);
  }
  ~Environment() { support::set_environment(name_, nullptr); }
  const char *name_;
};

sluice_status take(sluice_options &options, std::vector<const char *> words,
                   std::vector<std::string> *left = nullptr) {
  std::vector<char *> arguments;
  for (const char *word : words) arguments.push_back(const_cast<char *>(word));
  int count = static_cast<int>(arguments.size());
  const sluice_status status = sluice_options_take_flags(&options, &count, arguments.data());
  if (left) left->assign(arguments.begin(), arguments.begin() + count);
  return status;
}

}  // namespace

TEST_CASE("sizes as people write them") {
  CHECK(size_of("4096") == 4096);
  CHECK(size_of("256MiB") == 256 * kMiB);
  CHECK(size_of("8GiB") == 8 * kGiB);
  CHECK(size_of("8 GiB") == 8 * kGiB);
  CHECK(size_of("1.5GB") == 1500000000);
  CHECK(size_of("2g") == 2 * kGiB);
  CHECK(size_of("none") == SLUICE_NO_LIMIT);
  for (const char *bad :
       {"", "x", "-1", "1.", "1.x", "1QiB", "16777216TiB", "99999999999999999999", "1e9", " 1"}) {
    CAPTURE(bad);
    CHECK(size_of(bad) == UINT64_MAX - 1);
    CHECK(support::last_error().find(bad) != std::string::npos);
  }
  CHECK(format_size(48 * kMiB) == "48 MiB");
  CHECK(format_size(3 * kGiB / 2) == "1.50 GiB");
  CHECK(format_size(SLUICE_NO_LIMIT) == "no limit");
}

TEST_CASE("flags are taken out of the command line, the rest stays") {
  sluice_options options = SLUICE_OPTIONS_INIT;
  std::vector<std::string> left;
  REQUIRE(take(options,
               {"sluice", "load", "--vram-limit", "1GiB", "m.safetensors", "--fast-disk",
                "--ring=64MiB", "--verify", "--io", "threads", "--", "--ring", "1"},
               &left) == SLUICE_OK);
  CHECK(left == std::vector<std::string>{"sluice", "load", "m.safetensors", "--verify", "--",
                                         "--ring", "1"});
  CHECK(options.vram_limit == kGiB);
  CHECK(options.fast_disk == SLUICE_ON);
  CHECK(options.ring == 64 * kMiB);
  CHECK(options.io == SLUICE_IO_THREADS);
}

TEST_CASE("--fast-disk without a value means on, and takes a value of its own only") {
  sluice_options options = SLUICE_OPTIONS_INIT;
  std::vector<std::string> left;
  REQUIRE(take(options, {"p", "--fast-disk", "model"}, &left) == SLUICE_OK);
  CHECK(options.fast_disk == SLUICE_ON);
  CHECK(left.size() == 2);
  REQUIRE(take(options, {"p", "--fast-disk", "off"}, &left) == SLUICE_OK);
  CHECK(options.fast_disk == SLUICE_OFF);
  CHECK(left.size() == 1);
}

TEST_CASE("a bad flag names itself, the value and what is allowed, and changes nothing") {
  struct Case {
    const char *flag, *value;
  };
  for (const Case &bad : {Case{"--vram-limit", "lots"},
                          {"--io", "psync"},
                          {"--ring", "1"},
                          {"--io-workers", "0"},
                          {"--io-workers", "x"},
                          {"--slot", "1GiB"},
                          {"--ring", "none"},
                          {"--direct-io", "maybe"}}) {
    CAPTURE(bad.flag);
    CAPTURE(bad.value);
    sluice_options options = SLUICE_OPTIONS_INIT;
    std::vector<std::string> left;
    CHECK(take(options, {"p", "--huge-pages", "off", bad.flag, bad.value}, &left) ==
          SLUICE_INVALID_ARGUMENT);
    CHECK(left.size() == 5);
    CHECK(options.huge_pages == SLUICE_DEFAULT);
    CHECK(support::last_error().find(bad.flag) != std::string::npos);
    CHECK(support::last_error().find(bad.value) != std::string::npos);
  }
  sluice_options options = SLUICE_OPTIONS_INIT;
  CHECK(take(options, {"p", "--ring"}) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_options_set(&options, "speed", "1") == SLUICE_NOT_FOUND);
}

TEST_CASE("the struct passes the environment, which passes the default") {
  const Environment ring("SLUICE_RING", "1MiB"), io("SLUICE_IO", "threads");
  auto options = resolve_options(nullptr);
  REQUIRE(options.ok());
  CHECK(options.value().ring == kMiB);
  CHECK(options.value().io == SLUICE_IO_THREADS);
  CHECK(options.value().direct_io == SLUICE_AUTO);
  sluice_options given = SLUICE_OPTIONS_INIT;
  given.ring = 2 * kMiB;
  options = resolve_options(&given);
  REQUIRE(options.ok());
  CHECK(options.value().ring == 2 * kMiB);
}

TEST_CASE("environment variables are UTF-8") {
  const std::string path = "C:/Mod\u00e8les/\u6a21\u578b \U0001f680/driver.dll";
  const Environment driver("SLUICE_DRIVER", path.c_str());
  auto options = resolve_options(nullptr);
  REQUIRE(options.ok());
  CHECK(options.value().driver == path);
}

TEST_CASE("a bad environment variable is named") {
  const Environment bad("SLUICE_VRAM_LIMIT", "much");
  const auto options = resolve_options(nullptr);
  REQUIRE(!options.ok());
  CHECK(options.status().record().message.find("SLUICE_VRAM_LIMIT") != std::string::npos);
}

TEST_CASE("struct members are checked against their bounds") {
  sluice_options given = SLUICE_OPTIONS_INIT;
  given.slot = 65537;
  CHECK(!resolve_options(&given).ok());
  given = SLUICE_OPTIONS_INIT;
  given.io = 77;
  CHECK(!resolve_options(&given).ok());
  given = SLUICE_OPTIONS_INIT;
  given.slot = 4 * kMiB;
  given.ring = 4 * kMiB;
  CHECK(!resolve_options(&given).ok());
}

TEST_CASE("older and newer callers' structs") {
  struct Newer {
    sluice_options known;
    uint64_t added;
  } newer{SLUICE_OPTIONS_INIT, 0};
  newer.known.struct_size = sizeof newer;
  CHECK(resolve_options(&newer.known).ok());
  newer.added = 1;
  CHECK(!resolve_options(&newer.known).ok());
  sluice_options older = SLUICE_OPTIONS_INIT;
  older.huge_pages = 77;  // past what the older struct has
  older.struct_size = offsetof(sluice_options, huge_pages);
  CHECK(resolve_options(&older).ok());
  older.struct_size = 0;
  CHECK(!resolve_options(&older).ok());
}

TEST_CASE("each option can be described and set by its name") {
  const char *name = nullptr, *values = nullptr, *help = nullptr;
  uint32_t count = 0;
  for (; sluice_options_describe(count, &name, &values, &help); ++count) {
    CHECK(std::strlen(name) > 0);
    CHECK(std::strlen(values) > 0);
    CHECK(std::strlen(help) > 0);
  }
  CHECK(count >= 12);
  CHECK(name == nullptr);
}

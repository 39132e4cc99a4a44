// When weights may leave RAM, and what the log says of it.
#include <doctest/doctest.h>

#include "io/fast_disk.h"

using namespace sluice;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

FastDiskAnswer answer(uint64_t model, uint64_t room, std::optional<SourceRates> rates = {},
                      sluice_switch asked = SLUICE_AUTO) {
  return decide_fast_disk({asked, model, room, rates});
}

bool says(const FastDiskAnswer &answer, const char *text) {
  return answer.reason.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("what was asked for needs no measuring") {
  for (const sluice_switch asked : {SLUICE_ON, SLUICE_OFF}) {
    const FastDiskAnswer given = answer(100 * kGiB, kGiB, std::nullopt, asked);
    CHECK(given.on == (asked == SLUICE_ON));
    CHECK(!given.needs_rates);
    CHECK(says(given, "as asked"));
  }
}

TEST_CASE("what doesn't fit into RAM may leave it, whatever the disk") {
  CHECK(answer(8 * kGiB + 1, 8 * kGiB).on);
  CHECK(!answer(8 * kGiB + 1, 8 * kGiB).needs_rates);
  CHECK(answer(8 * kGiB + 1, 8 * kGiB, SourceRates{1e9, 2e10}).on);
  CHECK(says(answer(12 * kGiB, 8 * kGiB), "12 GiB of weights don't fit into 8 GiB"));
}

TEST_CASE("what fits stays, unless the disk is no slower than RAM") {
  CHECK(answer(8 * kGiB, 8 * kGiB).needs_rates);
  CHECK(!answer(8 * kGiB, 8 * kGiB, SourceRates{9.9e9, 1e10}).on);
  CHECK(answer(8 * kGiB, 8 * kGiB, SourceRates{1e10, 1e10}).on);
  CHECK(says(answer(kGiB, 8 * kGiB, SourceRates{3e9, 2e10}),
             "the disk gives 3.0 GB/s, less than the 20.0 of RAM"));
}

TEST_CASE("a disk that can't be measured is no fast one") {
  const FastDiskAnswer given = answer(kGiB, 8 * kGiB, SourceRates{0, 1e10});
  CHECK(!given.on);
  CHECK(!given.needs_rates);
  CHECK(says(given, "can't be measured"));
}

TEST_CASE("the log tells the first answer and each other one, once") {
  std::vector<std::string> lines;
  const Log log(
      SLUICE_LOG_INFO,
      [](void *user, sluice_log_level level, const char *line) {
        static_cast<std::vector<std::string> *>(user)->push_back(
            (level == SLUICE_LOG_WARNING ? "warning " : "info ") + std::string(line));
      },
      &lines);
  FastDisk fast_disk;
  for (const bool on : {false, false, true, true, false})
    fast_disk.note(log, "m.gguf", {on, false, "because"});
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "info [sluice][io] m.gguf: fast disk off: because");
  CHECK(lines[1] == "warning [sluice][io] m.gguf: fast disk is on now: because");
  CHECK(lines[2] == "warning [sluice][io] m.gguf: fast disk is off now: because");
}

TEST_CASE("rates are kept for each device") {
  FastDisk fast_disk;
  CHECK(!fast_disk.rates(0));
  fast_disk.set_rates(1, {1, 2});
  CHECK(!fast_disk.rates(0));
  CHECK(fast_disk.rates(1)->ram == 2);
}

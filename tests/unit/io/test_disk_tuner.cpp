// The tuner against disks that are functions: how fast with so many reads at once, this way or
// that.
#include <doctest/doctest.h>

#include <functional>

#include "io/disk_tuner.h"

using sluice::DiskTuner;

namespace {

// Bytes a nanosecond.
using Disk = std::function<double(uint32_t depth, bool buffered)>;

void read(DiskTuner &tuner, const Disk &disk, int reads, uint64_t *now_ns) {
  constexpr uint64_t kBytes = 2 << 20;
  for (int i = 0; i < reads; ++i) {
    *now_ns += static_cast<uint64_t>(kBytes / disk(tuner.depth(), tuner.buffered()));
    tuner.ended(kBytes, *now_ns);
  }
}

struct Found {
  uint32_t depth;
  bool buffered;
};

Found settle(const Disk &disk, uint32_t max_depth, bool both_ways = true) {
  DiskTuner tuner(max_depth, both_ways);
  uint64_t now = 1;
  read(tuner, disk, 2000, &now);
  return {tuner.depth(), tuner.buffered()};
}

}  // namespace

TEST_CASE("as many reads at once as make the disk faster, and no more") {
  const auto until = [](double most) {
    return [most](uint32_t depth, bool) { return std::min<double>(depth, most) * 0.25; };
  };
  CHECK(settle(until(4), 64).depth == 4);
  CHECK(settle(until(32), 64).depth == 32);
  CHECK(settle(until(1), 64).depth == 1);
  CHECK(settle(until(64), 12).depth == 12);
  CHECK(settle(until(64), 1).depth == 1);
}

TEST_CASE("a disk that suffers from many reads gets few") {
  CHECK(settle([](uint32_t depth, bool) { return depth > 2 ? 0.3 : depth; }, 64).depth == 2);
}

TEST_CASE("reads go through the page cache only where that is clearly faster") {
  const auto gain = [](double factor) {
    return [factor](uint32_t, bool buffered) { return buffered ? factor : 1.0; };
  };
  CHECK(settle(gain(1.5), 16).buffered);
  CHECK_FALSE(settle(gain(1.1), 16).buffered);
  CHECK_FALSE(settle(gain(0.2), 16).buffered);
  CHECK_FALSE(settle(gain(9), 16, false).buffered);
}

TEST_CASE("a disk that has become another one is tuned again") {
  DiskTuner tuner(64, false);
  uint64_t now = 1;
  read(
      tuner, [](uint32_t depth, bool) { return std::min(depth, 2u) * 1.0; }, 2000, &now);
  CHECK(tuner.depth() == 2);
  read(
      tuner, [](uint32_t depth, bool) { return std::min(depth, 16u) * 0.1; }, 2000, &now);
  CHECK(tuner.depth() == 16);
}

// The time in which nobody reads says nothing about the disk.
TEST_CASE("a pause isn't taken for a slow disk") {
  const Disk disk = [](uint32_t depth, bool) { return std::min(depth, 8u) * 1.0; };
  DiskTuner tuner(64, false);
  uint64_t now = 1;
  read(tuner, disk, 2000, &now);
  CHECK(tuner.depth() == 8);
  for (int i = 0; i < 50; ++i) {
    tuner.pause();
    now += 1'000'000'000;
    read(tuner, disk, 40, &now);
    CHECK(tuner.depth() == 8);
  }
}

TEST_CASE("what was found is said, and nothing before") {
  DiskTuner tuner(4, true);
  CHECK(tuner.describe() == "");
  uint64_t now = 1;
  read(
      tuner, [](uint32_t, bool buffered) { return buffered ? 0.5 : 2.0; }, 500, &now);
  CHECK(tuner.describe() == "1 read at once, 2.0 GB/s; buffered reads gave 0.5");
}

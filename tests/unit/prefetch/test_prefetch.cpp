#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "prefetch/kernels/cast_core.h"
#include "prefetch/kernels/image.h"
#include "tests/support/files.h"
#include "tests/support/session.h"

using namespace support;

TEST_CASE("bit reversal: unique, and every prefix of the eviction order is spread out") {
  for (uint64_t n = 1; n <= 300; ++n) {
    std::vector<std::pair<uint64_t, uint64_t>> order;
    for (uint64_t k = 0; k < n; ++k) order.push_back({sluice_bit_reverse(k, n), k});
    std::sort(order.begin(), order.end());
    for (uint64_t k = 1; k < n; ++k) REQUIRE(order[k].first != order[k - 1].first);
    // After m evictions no two of them are nearer than the power of two below n / m allows.
    std::set<uint64_t> gone;
    for (uint64_t m = 1; m <= n; ++m) {
      gone.insert(order[m - 1].second);
      const uint64_t spacing = std::bit_ceil(n) / std::bit_ceil(m);
      uint64_t before = UINT64_MAX;
      for (const uint64_t k : gone) {
        if (before != UINT64_MAX) REQUIRE(k - before >= std::max<uint64_t>(spacing / 2, 1));
        before = k;
      }
    }
  }
  CHECK(sluice_bit_reverse(1, 8) == 4);
  CHECK(sluice_bit_reverse(6, 8) == 3);
  CHECK(sluice_bit_reverse(0, 1) == 0);
  CHECK(sluice_bit_reverse(5, 5) == 0);
  CHECK(sluice_bit_reverse(0, 0) == 0);
  CHECK(sluice_bit_reverse(1, uint64_t{1} << 32) == uint64_t{1} << 31);
}

TEST_CASE("casting on the device, each type to each") {
  if (sluice_kernels_fatbin_size == 0) return;  // built without nvcc: the next case covers it
  const TemporaryFolder folder;
  Session session;
  constexpr size_t kCount = 5000;
  const auto bytes = pattern(kCount * 4, 11);
  write_file(folder.file("f"), bytes.data(), bytes.size());
  sluice_buffer *buffer = nullptr;
  sluice_file *file = nullptr;
  REQUIRE(sluice_buffer_create(session.device, 1 << 20, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 1 << 20) == SLUICE_OK);
  REQUIRE(sluice_file_open(session.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
  const uint64_t source = sluice_buffer_address(buffer), target = source + (512 << 10);
  const sluice_read_range range{file, 0, bytes.size(), source, nullptr, nullptr};
  sluice_read *read = nullptr;
  REQUIRE(sluice_read_submit(session.device, &range, 1, nullptr, nullptr, &read) == SLUICE_OK);
  REQUIRE(sluice_read_wait(read) == SLUICE_OK);
  sluice_read_release(read);
  const sluice_type types[] = {SLUICE_TYPE_F32, SLUICE_TYPE_F16, SLUICE_TYPE_BF16};
  for (uint32_t from = 0; from < 3; ++from)
    for (uint32_t to = 0; to < 3; ++to) {
      REQUIRE(sluice_cast(session.device, source, types[from], target, types[to], kCount,
                          nullptr) == SLUICE_OK);
      const size_t size = kCount * sluice_cast_type_bytes(to);
      std::vector<unsigned char> got(size), expected(size);
      REQUIRE(sluice_copy_to_host(session.device, target, size, nullptr, got.data()) == SLUICE_OK);
      for (uint64_t i = 0; i < kCount; ++i)
        sluice_cast_element(bytes.data(), expected.data(), i, from, to);
      CHECK(got == expected);
    }
  CHECK(sluice_cast(session.device, source + 1, SLUICE_TYPE_F32, target, SLUICE_TYPE_F16, 1,
                    nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_cast(session.device, source, SLUICE_TYPE_I8, target, SLUICE_TYPE_F16, 1, nullptr) ==
        SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_cast(session.device, source, SLUICE_TYPE_F16, target, SLUICE_TYPE_F16, 0, nullptr) ==
        SLUICE_OK);
  // A kernel that leaves its memory costs the context: all of this is refused before.
  const auto halves = [&](uint64_t from, uint64_t to, uint64_t count) {
    return sluice_cast(session.device, from, SLUICE_TYPE_F16, to, SLUICE_TYPE_F16, count, nullptr);
  };
  const uint64_t end = source + sluice_buffer_size(buffer);
  CHECK(halves(source, target, uint64_t{1} << 63) == SLUICE_INVALID_ARGUMENT);
  CHECK(halves(end - 2, target, 2) == SLUICE_INVALID_ARGUMENT);
  CHECK(halves(source, end - 2, 2) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("target") != std::string::npos);
  CHECK(halves(source, source + 4, 4) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("overlap") != std::string::npos);
  CHECK(halves(source, source + 4, 2) == SLUICE_OK);
  CHECK(halves(0, target, 2) == SLUICE_INVALID_ARGUMENT);
  CHECK(last_error().find("address is 0") != std::string::npos);
  CHECK(sluice_stream_synchronize(session.device, nullptr) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
  CHECK(sluice_file_close(file) == SLUICE_OK);
}

namespace {

uint32_t bits_of(float value) { return std::bit_cast<uint32_t>(value); }

}  // namespace

// Round to nearest even, as the processor rounds float to half and the definition of bfloat16.
TEST_CASE("the cast's numeric core at its edges") {
  CHECK(sluice_bf16_from_f32(bits_of(1.0f)) == 0x3F80);
  CHECK(sluice_bf16_from_f32(0x3F808000) == 0x3F80);  // a tie: to even
  CHECK(sluice_bf16_from_f32(0x3F818000) == 0x3F82);
  CHECK(sluice_bf16_from_f32(0x7F7FFFFF) == 0x7F80);            // past the largest: infinity
  CHECK((sluice_bf16_from_f32(0x7F800001) & 0x7FFF) > 0x7F80);  // a NaN stays one
  CHECK(sluice_f16_from_f32(bits_of(65504.0f)) == 0x7BFF);
  CHECK(sluice_f16_from_f32(bits_of(65519.0f)) == 0x7BFF);
  CHECK(sluice_f16_from_f32(bits_of(65520.0f)) == 0x7C00);
  CHECK(sluice_f16_from_f32(bits_of(5.960464477539063e-8f)) == 0x0001);
  CHECK(sluice_f16_from_f32(bits_of(2.98e-8f)) == 0x0000);
  CHECK(sluice_f16_from_f32(bits_of(-0.0f)) == 0x8000);
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const bool nan = (half & 0x7FFF) > 0x7C00;
    const uint32_t wide = sluice_f32_from_f16(static_cast<uint16_t>(half));
    if (nan)
      REQUIRE((wide & 0x7FFFFFFF) > 0x7F800000);
    else
      REQUIRE(sluice_f16_from_f32(wide) == half);
  }
}

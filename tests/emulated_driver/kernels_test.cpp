// Modules, launches, and the numeric core of the cast kernel.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <cmath>

#include "../../prefetch/kernels/cast_core.h"
#include "driver.h"

namespace {

const char kImage[] = ".version 7.0 // sluice_kernels_v1";

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

// A half's value by definition.
double value_of_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude =
      exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return bits & 0x8000 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every half survives the way to float and back") {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto half = static_cast<uint16_t>(i);
    const uint32_t wide = sluice_f32_from_f16(half);
    if ((half & 0x7FFF) > 0x7C00) {
      REQUIRE(std::isnan(float_of(wide)));
      REQUIRE(sluice_f16_from_f32(wide) == (half | 0x200));
    } else {
      if ((half & 0x7C00) != 0x7C00)
        REQUIRE(static_cast<double>(float_of(wide)) == value_of_half(half));
      REQUIRE(sluice_f16_from_f32(wide) == half);
    }
    const uint32_t brain = sluice_f32_from_bf16(half);
    if ((half & 0x7FFF) > 0x7F80)
      REQUIRE(sluice_bf16_from_f32(brain) == (half | 0x40));
    else
      REQUIRE(sluice_bf16_from_f32(brain) == half);
  }
}

TEST_CASE("rounding is to the nearest, ties to even") {
  uint32_t state = 12345;
  for (int i = 0; i < 200000; ++i) {
    state = state * 1664525u + 1013904223u;
    const uint32_t bits = 0x32000000u + state % (0x47800000u - 0x32000000u);
    const double value = static_cast<double>(float_of(bits));
    const uint16_t half = sluice_f16_from_f32(bits);
    if (half >= 0x7C00) {
      REQUIRE(value >= 65520.0);
      continue;
    }
    const double error = std::fabs(value_of_half(half) - value);
    for (const int step : {-1, 1}) {
      const int other = half + step;
      if (other < 0 || other >= 0x7C00) continue;
      const double other_error = std::fabs(value_of_half(static_cast<uint16_t>(other)) - value);
      REQUIRE(error <= other_error);
      if (error == other_error) REQUIRE((half & 1) == 0);
    }
  }
  CHECK(sluice_bf16_from_f32(0x3F808000u) == 0x3F80);
  CHECK(sluice_bf16_from_f32(0x3F818000u) == 0x3F82);
  CHECK(sluice_bf16_from_f32(0x7F7FFFFFu) == 0x7F80);
  CHECK(sluice_f16_from_f32(bits_of(65519.0f)) == 0x7BFF);
  CHECK(sluice_f16_from_f32(bits_of(65520.0f)) == 0x7C00);
  CHECK(sluice_f16_from_f32(0x33000000u) == 0);
  CHECK(sluice_f16_from_f32(0x33000001u) == 1);
}

TEST_CASE("modules: the marker, names, handles") {
  Session session;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  CHECK(cu().ModuleLoadData(&module, ".version 7.0 // somebody else's") ==
        CUDA_ERROR_NO_BINARY_FOR_GPU);
  REQUIRE(cu().ModuleLoadData(&module, kImage) == CUDA_SUCCESS);
  CHECK(cu().ModuleGetFunction(&function, module, "no_such_kernel") == CUDA_ERROR_NOT_FOUND);
  REQUIRE(cu().ModuleGetFunction(&function, module, "sluice_cast") == CUDA_SUCCESS);
  int threads = 0;
  CHECK(cu().FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) ==
        CUDA_SUCCESS);
  CHECK(threads == 1024);
  CHECK(cu().ModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cu().FuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) ==
        CUDA_ERROR_INVALID_HANDLE);
  struct {
    uint32_t magic = 0xBA55ED50;
    uint16_t version = 1, header = 16;
    uint64_t payload = 32;
    char text[32] = "xx\0sluice_kernels_v1";
  } fat;
  CHECK(cu().ModuleLoadData(&module, &fat) == CUDA_SUCCESS);
  CHECK(cu().ModuleUnload(module) == CUDA_SUCCESS);
  fat.payload = 8;
  CHECK(cu().ModuleLoadData(&module, &fat) == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_CASE("a cast runs on the stream, over several handles, and faults when it must") {
  Session session{{"KERNEL_TIME", "2000000"}};
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cu().ModuleLoadData(&module, kImage) == CUDA_SUCCESS);
  REQUIRE(cu().ModuleGetFunction(&function, module, "sluice_cast") == CUDA_SUCCESS);
  Mapped source(2), target(1);
  StreamHandle stream;
  EventHandle begin, end;
  const uint64_t count = 2 * kGranule / 4;
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = bits_of(static_cast<float>(i) * 0.37f);
  CHECK(cu().MemcpyHtoD(source.address, values.data(), count * 4) == CUDA_SUCCESS);
  uint64_t from = source.address, to = target.address, n = count;
  uint32_t source_type = SLUICE_CAST_F32, target_type = SLUICE_CAST_BF16;
  void *arguments[] = {&from, &to, &n, &source_type, &target_type};
  CHECK(cu().LaunchKernel(function, 0, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cu().EventRecord(begin, stream) == CUDA_SUCCESS);
  CHECK(cu().LaunchKernel(function, 64, 1, 1, 256, 1, 1, 0, stream, arguments, nullptr) ==
        CUDA_SUCCESS);
  CHECK(cu().EventRecord(end, stream) == CUDA_SUCCESS);
  CHECK(cu().StreamSynchronize(stream) == CUDA_SUCCESS);
  float milliseconds = 0;
  CHECK(cu().EventElapsedTime(&milliseconds, begin, end) == CUDA_SUCCESS);
  CHECK(milliseconds >= 2.0f);
  std::vector<uint16_t> result(count);
  CHECK(cu().MemcpyDtoH(result.data(), target.address, count * 2) == CUDA_SUCCESS);
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += result[i] != sluice_bf16_from_f32(values[i]);
  CHECK(wrong == 0);
  CHECK(cu().ModuleUnload(module) == CUDA_SUCCESS);
}

TEST_CASE("a kernel that leaves its memory is an illegal address") {
  Session session;
  session.clean = false;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  REQUIRE(cu().ModuleLoadData(&module, kImage) == CUDA_SUCCESS);
  REQUIRE(cu().ModuleGetFunction(&function, module, "sluice_cast") == CUDA_SUCCESS);
  CUdeviceptr memory = 0;
  REQUIRE(cu().MemAlloc(&memory, 4096) == CUDA_SUCCESS);
  uint64_t from = memory, to = memory, n = 1u << 30;
  uint32_t type = SLUICE_CAST_F32, half = SLUICE_CAST_F16;
  void *arguments[] = {&from, &to, &n, &type, &half};
  CHECK(cu().LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, arguments, nullptr) ==
        CUDA_SUCCESS);
  CHECK(cu().CtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

// What only a real GPU can show: bytes through the real driver, the kernels' bits, memory given
// back. Skips (77) where there is no GPU.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "prefetch/kernels/cast_core.h"
#include "prefetch/kernels/image.h"
#include "runtime/limits.h"
#include "runtime/sluice.h"
#include "tests/support/files.h"

namespace {

using sluice::kMiB;

std::string last_error() {
  sluice_error error = SLUICE_ERROR_INIT;
  sluice_error_get(&error);
  return error.message;
}

struct Gpu {
  explicit Gpu(sluice_options options = SLUICE_OPTIONS_INIT) {
    REQUIRE(sluice_runtime_create(&options, &runtime) == SLUICE_OK);
    REQUIRE(sluice_device_open(runtime, 0, &device) == SLUICE_OK);
  }
  ~Gpu() {
    CHECK(sluice_device_close(device) == SLUICE_OK);
    CHECK(sluice_runtime_destroy(runtime) == SLUICE_OK);
  }
  sluice_stats stats() const {
    sluice_stats stats = SLUICE_STATS_INIT;
    sluice_stats_get(runtime, &stats);
    return stats;
  }
  uint64_t free_bytes() const {
    sluice_device_info info = SLUICE_DEVICE_INFO_INIT;
    sluice_device_info_get(device, &info);
    return info.free_bytes;
  }
  sluice_runtime *runtime = nullptr;
  sluice_device *device = nullptr;
};

std::vector<size_t> odd_sizes() {
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 200; ++i) sizes.push_back(1 + i * i * 37 % 3000001);
  return sizes;
}

void check_load(Gpu &gpu, const std::string &path, const std::vector<unsigned char> &data) {
  sluice_checkpoint *checkpoint = nullptr;
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_checkpoint_open(gpu.runtime, path.c_str(), &checkpoint) == SLUICE_OK);
  sluice_checkpoint_info info = SLUICE_CHECKPOINT_INFO_INIT;
  REQUIRE(sluice_checkpoint_info_get(checkpoint, &info) == SLUICE_OK);
  std::vector<uint64_t> addresses(info.tensor_count);
  const sluice_status status = sluice_checkpoint_load(checkpoint, gpu.device, 0, nullptr, nullptr,
                                                      nullptr, nullptr, &buffer, addresses.data());
  INFO(last_error());
  REQUIRE(status == SLUICE_OK);
  size_t offset = 0;
  for (uint64_t i = 0; i < info.tensor_count; ++i) {
    sluice_tensor_info tensor = SLUICE_TENSOR_INFO_INIT;
    REQUIRE(sluice_checkpoint_tensor(checkpoint, i, &tensor) == SLUICE_OK);
    std::vector<unsigned char> copy(tensor.size_bytes);
    REQUIRE(sluice_copy_to_host(gpu.device, addresses[i], copy.size(), nullptr, copy.data()) ==
            SLUICE_OK);
    CHECK(addresses[i] % 256 == 0);
    CHECK(std::memcmp(copy.data(), data.data() + offset, copy.size()) == 0);
    offset += copy.size();
  }
  sluice_buffer_destroy(buffer);
  CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
}

}  // namespace

TEST_CASE("a checkpoint of odd sizes, every way of reading, bit for bit") {
  const support::TemporaryFolder folder;
  const auto data = support::write_checkpoint(folder.file("m"), odd_sizes(), 3);
  for (const sluice_io_backend io : {SLUICE_IO_AUTO, SLUICE_IO_URING, SLUICE_IO_THREADS})
    for (const sluice_switch direct : {SLUICE_AUTO, SLUICE_ON, SLUICE_OFF})
      for (const uint64_t ring : {3 * 64 * sluice::kKiB, 16 * kMiB, 256 * kMiB}) {
        CAPTURE(static_cast<int>(io));
        CAPTURE(static_cast<int>(direct));
        CAPTURE(ring);
        sluice_options options = SLUICE_OPTIONS_INIT;
        options.io = io;
        options.direct_io = direct;
        options.ring = ring;
        Gpu gpu(options);
        check_load(gpu, folder.file("m"), data);
      }
}

TEST_CASE("growing, shrinking and a hundred cycles give everything back") {
  uint64_t first_free = 0;
  Gpu gpu;
  for (int cycle = 0; cycle < 100; ++cycle) {
    sluice_buffer *buffer = nullptr;
    REQUIRE(sluice_buffer_create(gpu.device, 4096 * kMiB, &buffer) == SLUICE_OK);
    const uint64_t address = sluice_buffer_address(buffer);
    for (const uint64_t bytes : {2 * kMiB, 100 * kMiB, 700 * kMiB})
      REQUIRE(sluice_buffer_grow(buffer, bytes) == SLUICE_OK);
    CHECK(sluice_buffer_address(buffer) == address);
    REQUIRE(sluice_buffer_use(buffer, nullptr) == SLUICE_OK);
    REQUIRE(sluice_buffer_shrink(buffer, 50 * kMiB) == SLUICE_OK);
    sluice_buffer_destroy(buffer);
    REQUIRE(sluice_stream_synchronize(gpu.device, nullptr) == SLUICE_OK);
    REQUIRE(sluice_device_trim(gpu.device, nullptr) == SLUICE_OK);
    if (cycle == 0) first_free = gpu.free_bytes();
  }
  CHECK(gpu.free_bytes() >= first_free);
  CHECK(gpu.stats().vram_bytes == 0);
  CHECK(gpu.stats().device_waits == 0);
}

TEST_CASE("casts give the bits of their numeric core on the host") {
  REQUIRE(sluice_kernels_fatbin_size != 0);
  const support::TemporaryFolder folder;
  constexpr size_t kCount = 1 << 20;
  const auto bytes = support::pattern(kCount * 4, 11);
  support::write_file(folder.file("f"), bytes.data(), bytes.size());
  Gpu gpu;
  sluice_buffer *buffer = nullptr;
  sluice_file *file = nullptr;
  REQUIRE(sluice_buffer_create(gpu.device, 16 * kMiB, &buffer) == SLUICE_OK);
  REQUIRE(sluice_buffer_grow(buffer, 16 * kMiB) == SLUICE_OK);
  REQUIRE(sluice_file_open(gpu.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
  const uint64_t source = sluice_buffer_address(buffer), target = source + 8 * kMiB;
  const sluice_read_range range{file, 0, bytes.size(), source, nullptr, nullptr};
  sluice_read *read = nullptr;
  REQUIRE(sluice_read_submit(gpu.device, &range, 1, nullptr, nullptr, &read) == SLUICE_OK);
  REQUIRE(sluice_read_wait(read) == SLUICE_OK);
  sluice_read_release(read);
  const sluice_type types[] = {SLUICE_TYPE_F32, SLUICE_TYPE_F16, SLUICE_TYPE_BF16};
  for (uint32_t from = 0; from < 3; ++from)
    for (uint32_t to = 0; to < 3; ++to) {
      INFO(last_error());
      REQUIRE(sluice_cast(gpu.device, source, types[from], target, types[to], kCount, nullptr) ==
              SLUICE_OK);
      const size_t size = kCount * sluice_cast_type_bytes(to);
      std::vector<unsigned char> got(size), expected(size);
      REQUIRE(sluice_copy_to_host(gpu.device, target, size, nullptr, got.data()) == SLUICE_OK);
      for (uint64_t i = 0; i < kCount; ++i)
        sluice_cast_element(bytes.data(), expected.data(), i, from, to);
      CHECK(std::memcmp(got.data(), expected.data(), size) == 0);
    }
  sluice_buffer_destroy(buffer);
  CHECK(sluice_file_close(file) == SLUICE_OK);
}

TEST_CASE("scratch of streams, pinned allocations, and host memory as a target") {
  const support::TemporaryFolder folder;
  const auto data = support::pattern(3000001, 5);
  support::write_file(folder.file("f"), data.data(), data.size());
  Gpu gpu;
  uint64_t scratch = 0, again = 0;
  REQUIRE(sluice_cast_buffer_get(gpu.device, nullptr, kMiB, &scratch) == SLUICE_OK);
  REQUIRE(sluice_cast_buffer_get(gpu.device, nullptr, 64 * kMiB, &again) == SLUICE_OK);
  CHECK(scratch == again);
  void *pinned = nullptr;
  REQUIRE(sluice_pinned_alloc(gpu.device, data.size(), 4096, &pinned) == SLUICE_OK);
  sluice_file *file = nullptr;
  REQUIRE(sluice_file_open(gpu.runtime, folder.file("f").c_str(), &file) == SLUICE_OK);
  const sluice_read_range range{file, 0, data.size(), scratch, pinned, "f"};
  sluice_read *read = nullptr;
  REQUIRE(sluice_read_submit(gpu.device, &range, 1, nullptr, nullptr, &read) == SLUICE_OK);
  REQUIRE(sluice_read_wait(read) == SLUICE_OK);
  sluice_read_release(read);
  std::vector<unsigned char> copy(data.size());
  REQUIRE(sluice_copy_to_host(gpu.device, scratch, copy.size(), nullptr, copy.data()) == SLUICE_OK);
  CHECK(copy == data);
  CHECK(std::memcmp(pinned, data.data(), data.size()) == 0);
  CHECK(sluice_pinned_free(gpu.device, pinned) == SLUICE_OK);
  CHECK(sluice_file_close(file) == SLUICE_OK);
  CHECK(sluice_cast_buffer_free_stream(gpu.device, nullptr) == SLUICE_OK);
}

TEST_CASE("a cap smaller than the model, and more than the device has") {
  sluice_options options = SLUICE_OPTIONS_INIT;
  options.vram_limit = 64 * kMiB;
  Gpu gpu(options);
  sluice_buffer *buffer = nullptr;
  REQUIRE(sluice_buffer_create(gpu.device, uint64_t{1} << 42, &buffer) == SLUICE_OK);
  CHECK(sluice_buffer_grow(buffer, 65 * kMiB) == SLUICE_LIMIT_REACHED);
  REQUIRE(sluice_device_set_vram_limit(gpu.device, SLUICE_NO_LIMIT) == SLUICE_OK);
  const sluice_status status = sluice_buffer_grow(buffer, uint64_t{1} << 41);
  CHECK((status == SLUICE_OUT_OF_DEVICE_MEMORY || status == SLUICE_LIMIT_REACHED));
  CHECK(sluice_buffer_size(buffer) == 0);
  CHECK(sluice_buffer_grow(buffer, 64 * kMiB) == SLUICE_OK);
  sluice_buffer_destroy(buffer);
}

int main(int argc, char **argv) {
  sluice_runtime *runtime = nullptr;
  sluice_device *device = nullptr;
  sluice_status status = sluice_runtime_create(nullptr, &runtime);
  if (status == SLUICE_OK) status = sluice_device_open(runtime, 0, &device);
  if (status != SLUICE_OK) {
    std::printf("skipped: %s\n", last_error().c_str());
    return 77;
  }
  sluice_device_close(device);
  sluice_runtime_destroy(runtime);
  doctest::Context context(argc, argv);
  return context.run();
}

#include "tools/program/bench_driver.h"

#include <fmt/format.h>

#include "tools/program/failure.h"
#include "tools/program/system.h"

namespace program {
namespace {

constexpr unsigned kNonBlockingStream = 1;   // CU_STREAM_NON_BLOCKING
constexpr unsigned kEventWithoutTiming = 2;  // CU_EVENT_DISABLE_TIMING

void require(int result, const char *call) {
  if (result == 0) return;
  Failure failure(sluice_status_name(SLUICE_DRIVER_ERROR),
                  fmt::format("{} failed with code {}", call, result));
  failure.call = call;
  failure.code = result;
  throw failure;
}

}  // namespace

template <typename Function>
void BenchDriver::find(const char *name, Function **function) {
  *function = reinterpret_cast<Function *>(library_symbol(library_, name));
  if (*function != nullptr) return;
  throw Failure(sluice_status_name(SLUICE_DRIVER_TOO_OLD),
                fmt::format("the driver exports no {}", name));
}

BenchDriver::BenchDriver(const sluice_report &report, unsigned ordinal) {
  library_ = open_library(report.driver_path);
  if (library_ == nullptr) {
    throw Failure(sluice_status_name(SLUICE_NO_DRIVER),
                  fmt::format("'{}' can't be opened once more", report.driver_path));
  }
  find("cuDeviceGet", &device_get_);
  find("cuDevicePrimaryCtxRetain", &context_retain_);
  find("cuDevicePrimaryCtxRelease_v2", &context_release_);
  find("cuCtxSetCurrent", &context_set_);
  find("cuMemAllocHost_v2", &alloc_host_);
  find("cuMemFreeHost", &free_host_);
  find("cuMemcpyHtoD_v2", &copy_);
  find("cuMemcpyHtoDAsync_v2", &copy_async_);
  find("cuMemsetD8_v2", &fill_);
  find("cuStreamCreate", &stream_create_);
  find("cuStreamDestroy_v2", &stream_destroy_);
  find("cuStreamSynchronize", &stream_synchronize_);
  find("cuEventCreate", &event_create_);
  find("cuEventDestroy_v2", &event_destroy_);
  find("cuEventRecord", &event_record_);
  find("cuEventSynchronize", &event_synchronize_);
  require(device_get_(&device_, static_cast<int>(ordinal)), "cuDeviceGet");
  require(context_retain_(&context_, device_), "cuDevicePrimaryCtxRetain");
  static_cast<void>(context_set_(context_));
}

// The library stays open: sluice uses it too.
BenchDriver::~BenchDriver() {
  static_cast<void>(context_set_(nullptr));
  static_cast<void>(context_release_(device_));
}

void BenchDriver::enter() const { require(context_set_(context_), "cuCtxSetCurrent"); }

void *BenchDriver::alloc_host(uint64_t bytes) const {
  void *memory = nullptr;
  require(alloc_host_(&memory, bytes), "cuMemAllocHost");
  return memory;
}

void BenchDriver::free_host(void *memory) const { static_cast<void>(free_host_(memory)); }

void BenchDriver::copy_to_device(uint64_t target, const void *source, uint64_t bytes) const {
  require(copy_(target, source, bytes), "cuMemcpyHtoD");
}

void BenchDriver::copy_to_device(uint64_t target, const void *source, uint64_t bytes,
                                 void *stream) const {
  require(copy_async_(target, source, bytes, stream), "cuMemcpyHtoDAsync");
}

void BenchDriver::fill(uint64_t target, unsigned char value, uint64_t bytes) const {
  require(fill_(target, value, bytes), "cuMemsetD8");
  require(stream_synchronize_(nullptr), "cuStreamSynchronize");
}

void *BenchDriver::create_stream() const {
  void *stream = nullptr;
  require(stream_create_(&stream, kNonBlockingStream), "cuStreamCreate");
  return stream;
}

void BenchDriver::destroy_stream(void *stream) const { static_cast<void>(stream_destroy_(stream)); }

void BenchDriver::synchronize_stream(void *stream) const {
  require(stream_synchronize_(stream), "cuStreamSynchronize");
}

void *BenchDriver::create_event() const {
  void *event = nullptr;
  require(event_create_(&event, kEventWithoutTiming), "cuEventCreate");
  return event;
}

void BenchDriver::destroy_event(void *event) const { static_cast<void>(event_destroy_(event)); }

void BenchDriver::record(void *event, void *stream) const {
  require(event_record_(event, stream), "cuEventRecord");
}

void BenchDriver::synchronize_event(void *event) const {
  require(event_synchronize_(event), "cuEventSynchronize");
}

}  // namespace program

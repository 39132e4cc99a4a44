#include "prefetch/kernels.h"

#include <algorithm>

#include "alloc/device_range.h"
#include "prefetch/kernels/cast_core.h"
#include "prefetch/kernels/image.h"

namespace sluice {
namespace {

Result<uint32_t> cast_type(sluice_type type) {
  switch (type) {
    case SLUICE_TYPE_F32:
      return uint32_t{SLUICE_CAST_F32};
    case SLUICE_TYPE_F16:
      return uint32_t{SLUICE_CAST_F16};
    case SLUICE_TYPE_BF16:
      return uint32_t{SLUICE_CAST_BF16};
    default:
      break;
  }
  return error(SLUICE_INVALID_ARGUMENT, "casting {}: F32, F16 and BF16 are possible",
               sluice_type_name(type));
}

// One side of a cast: a range of device memory, and the buffer of ours that it lies in.
struct Side {
  uint64_t address, bytes;
  std::shared_ptr<GrowableBuffer> buffer;
};

Result<Side> check_side(Device &device, uint64_t address, uint32_t type, uint64_t count,
                        const char *which) {
  const uint64_t width = sluice_cast_type_bytes(type);
  if (address == 0) return error(SLUICE_INVALID_ARGUMENT, "the {} address is 0", which);
  if (address % width != 0)
    return error(SLUICE_INVALID_ARGUMENT, "the {} address {:#x} is not aligned to {}-byte elements",
                 which, address, width);
  uint64_t bytes = 0, end = 0;
  if (__builtin_mul_overflow(count, width, &bytes) || __builtin_add_overflow(address, bytes, &end))
    return error(SLUICE_INVALID_ARGUMENT, "the {} of {} elements at {:#x} passes all addresses",
                 which, count, address);
  auto buffer = find_device_range(device, address, bytes);
  if (!buffer.ok()) return buffer.take_status().with_context(fmt::format("the {}", which));
  return Side{address, bytes, buffer.take()};
}

bool overlap(const Side &a, const Side &b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

// The buffer outlives the work that is queued on `stream` now; what a graph uses is its owner's to
// keep.
Status keep(const std::shared_ptr<GrowableBuffer> &buffer, CUstream stream) {
  if (!buffer) return {};
  Status status = buffer->use(stream);
  return status.code() == SLUICE_STREAM_CAPTURING ? Status() : std::move(status);
}

}  // namespace

Result<std::unique_ptr<Kernels>> Kernels::create(Device &device) {
  if (sluice_kernels_fatbin_size == 0)
    return error(SLUICE_NOT_SUPPORTED, "this library was built without nvcc, so without kernels");
  std::unique_ptr<Kernels> kernels(new Kernels(device));
  SLUICE_CUDA(device.driver(), cuModuleLoadData, "the kernels", &kernels->module_,
              sluice_kernels_fatbin);
  SLUICE_CUDA(device.driver(), cuModuleGetFunction, "sluice_cast", &kernels->cast_,
              kernels->module_, "sluice_cast");
  return kernels;
}

Kernels::~Kernels() {
  if (module_)
    give_back(device_, "cuModuleUnload", [&] { return device_.cuda().cuModuleUnload(module_); });
}

Status Kernels::cast(uint64_t source, sluice_type source_type, uint64_t target,
                     sluice_type target_type, uint64_t count, CUstream stream) {
  SLUICE_ASSIGN(uint32_t from, cast_type(source_type));
  SLUICE_ASSIGN(uint32_t to, cast_type(target_type));
  if (count == 0) return {};
  SLUICE_ASSIGN(const Side source_side, check_side(device_, source, from, count, "source"));
  SLUICE_ASSIGN(const Side target_side, check_side(device_, target, to, count, "target"));
  if (overlap(source_side, target_side))
    return error(SLUICE_INVALID_ARGUMENT, "the source at {:#x} and the target at {:#x} overlap",
                 source, target);
  constexpr unsigned kThreads = 256;
  constexpr uint64_t kMaxBlocks = 4096;  // each thread strides over the rest
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMaxBlocks));
  void *arguments[] = {&source, &target, &count, &from, &to};
  SLUICE_CUDA(device_.driver(), cuLaunchKernel, "sluice_cast", cast_, blocks, 1, 1, kThreads, 1, 1,
              0, stream, arguments, nullptr);
  SLUICE_TRY(keep(source_side.buffer, stream));
  return target_side.buffer == source_side.buffer ? Status() : keep(target_side.buffer, stream);
}

}  // namespace sluice

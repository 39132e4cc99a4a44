#include "prefetch/kernels.h"

#include <algorithm>

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

Status check_address(uint64_t address, uint32_t type, const char *which) {
  if (address != 0 && address % sluice_cast_type_bytes(type) == 0) return {};
  return error(SLUICE_INVALID_ARGUMENT, "the {} address {:#x} is not aligned to {}-byte elements",
               which, address, sluice_cast_type_bytes(type));
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
  SLUICE_TRY(check_address(source, from, "source"));
  SLUICE_TRY(check_address(target, to, "target"));
  constexpr unsigned kThreads = 256;
  constexpr uint64_t kMaxBlocks = 4096;  // each thread strides over the rest
  const auto blocks =
      static_cast<unsigned>(std::min((count + kThreads - 1) / kThreads, kMaxBlocks));
  void *arguments[] = {&source, &target, &count, &from, &to};
  SLUICE_CUDA(device_.driver(), cuLaunchKernel, "sluice_cast", cast_, blocks, 1, 1, kThreads, 1, 1,
              0, stream, arguments, nullptr);
  return {};
}

}  // namespace sluice

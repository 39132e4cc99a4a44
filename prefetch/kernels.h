// The kernels of one device: the module is loaded on first use.
//
// Threads: any; immutable once made.
#pragma once

#include "runtime/device.h"

namespace sluice {

class Kernels final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kKernels;
  // Needs the device's context current, like everything here.
  static Result<std::unique_ptr<Kernels>> create(Device &device);
  ~Kernels() override;
  Status close() override { return {}; }

  // Elements of SLUICE_TYPE_F32, F16 or BF16, each to each, in the order of `stream`.
  Status cast(uint64_t source, sluice_type source_type, uint64_t target, sluice_type target_type,
              uint64_t count, CUstream stream);

 private:
  explicit Kernels(Device &device) : device_(device) {}

  Device &device_;
  CUmodule module_ = nullptr;
  CUfunction cast_ = nullptr;
};

}  // namespace sluice

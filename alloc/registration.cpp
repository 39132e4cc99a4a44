#include "alloc/registration.h"

namespace sluice {

Result<Registration> Registration::create(Device &device, std::byte *data, size_t bytes) {
  Budget &budget = device.runtime().pinned();
  if (!budget.try_charge(bytes))
    return error(SLUICE_LIMIT_REACHED,
                 "pinning {} would pass the pinned limit of {} ({}), of which {} are in use; raise "
                 "--pinned-limit",
                 format_size(bytes), format_size(budget.limit()), device.runtime().pinned_reason(),
                 format_size(budget.used()));
  const CUresult result = device.cuda().cuMemHostRegister(data, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (result != CUDA_SUCCESS) {
    budget.release(bytes);
    return device.driver().failure("cuMemHostRegister", result, format_size(bytes));
  }
  budget.note_peak();
  device.counters().registrations.add();
  return Registration(device, data, bytes);
}

Registration::~Registration() {
  if (!device_) return;
  give_back(*device_, "cuMemHostUnregister",
            [&] { return device_->cuda().cuMemHostUnregister(data_); });
  device_->counters().unregistrations.add();
  device_->runtime().pinned().release(bytes_);
}

}  // namespace sluice

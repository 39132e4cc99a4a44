#include "runtime/events.h"

#include "runtime/device.h"

namespace sluice {

Event::~Event() {
  if (pool_) pool_->put(event_);
}

Status Event::record(CUstream stream) noexcept {
  SLUICE_CUDA(pool_->device().driver(), cuEventRecord, "", event_, stream);
  return {};
}

Result<bool> Event::passed() const noexcept {
  const Driver &driver = pool_->device().driver();
  const CUresult result = driver.table().cuEventQuery(event_);
  if (result == CUDA_SUCCESS) return true;
  if (result == CUDA_ERROR_NOT_READY) return false;
  return driver.failure("cuEventQuery", result);
}

Status Event::wait_on_host() const noexcept {
  SLUICE_CUDA(pool_->device().driver(), cuEventSynchronize, "", event_);
  return {};
}

Status Event::make_wait(CUstream stream) const noexcept {
  SLUICE_CUDA(pool_->device().driver(), cuStreamWaitEvent, "", stream, event_,
              CU_EVENT_WAIT_DEFAULT);
  return {};
}

EventPool::~EventPool() {
  for (CUevent event : free_)
    give_back(device_, "cuEventDestroy", [&] { return device_.cuda().cuEventDestroy(event); });
}

Result<Event> EventPool::take() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      const CUevent event = free_.back();
      free_.pop_back();
      return Event(this, event);
    }
    // Room for it first, so that putting it back can't fail.
    try {
      free_.reserve(made_ + 1);
    } catch (...) {
      return Status::out_of_host_memory();
    }
    ++made_;
  }
  CUevent event = nullptr;
  const auto flags = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
  const CUresult result = device_.cuda().cuEventCreate(&event, flags);
  if (result == CUDA_SUCCESS) return Event(this, event);
  const std::lock_guard lock(mutex_);
  --made_;
  return device_.driver().failure("cuEventCreate", result);
}

void EventPool::put(CUevent event) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(event);
}

}  // namespace sluice

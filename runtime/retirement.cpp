#include "runtime/retirement.h"

#include "runtime/device.h"

namespace sluice {

Retirement::~Retirement() { drain(); }

void Retirement::add(std::unique_ptr<Retired> retired) noexcept {
  const std::lock_guard lock(mutex_);
  Retired *raw = retired.get();
  (newest_ ? newest_->next_ : oldest_) = std::move(retired);
  newest_ = raw;
}

// An event that can't be queried belongs to a broken context: nothing of it runs any more.
bool Retirement::has_passed(Retired &retired) noexcept {
  while (!retired.events.empty()) {
    auto passed = retired.events.back()->passed();
    if (!passed.ok() && passed.status().code() != SLUICE_DEVICE_LOST) return false;
    if (passed.ok() && !passed.value()) return false;
    retired.events.pop_back();
  }
  return true;
}

std::unique_ptr<Retired> Retirement::take_passed() noexcept {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Retired> *link = &oldest_;
  Retired *before = nullptr;
  while (*link && !has_passed(**link)) {
    before = link->get();
    link = &(*link)->next_;
  }
  if (!*link) return nullptr;
  std::unique_ptr<Retired> taken = std::move(*link);
  *link = std::move(taken->next_);
  if (newest_ == taken.get()) newest_ = before;
  return taken;
}

void Retirement::poll() noexcept {
  while (std::unique_ptr<Retired> retired = take_passed()) retired->release();
}

bool Retirement::wait_for_oldest() noexcept {
  std::unique_ptr<Retired> retired;
  {
    const std::lock_guard lock(mutex_);
    if (!oldest_) return false;
    retired = std::move(oldest_);
    oldest_ = std::move(retired->next_);
    if (!oldest_) newest_ = nullptr;
  }
  for (const auto &event : retired->events) {
    device_.counters().stream_waits.add();
    // The context as a whole is the next best thing to wait for.
    if (Status status = event->wait_on_host(); !status.ok()) wait_for_context(device_);
  }
  retired->events.clear();
  retired->release();
  return true;
}

void Retirement::drain() noexcept {
  while (wait_for_oldest()) {
  }
}

}  // namespace sluice

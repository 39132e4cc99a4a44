// Memory is given back in stream order: what is retired waits here until the host has seen every
// event behind its last uses, and is then released.
//
// Threads: any; releases run on the thread that polls, without the lock held. Invariant: a
// retired thing is released exactly once, never before its events have passed (after a broken
// context: at once, since nothing runs any more).
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/events.h"
#include "runtime/status.h"

namespace sluice {

// What waits. Made before it is needed, so that retiring can't fail.
class Retired {
 public:
  virtual ~Retired() = default;
  virtual void release() noexcept = 0;
  std::vector<std::shared_ptr<Event>> events;

 private:
  friend class Retirement;
  std::unique_ptr<Retired> next_;
};

class Retirement {
 public:
  explicit Retirement(Device &device) noexcept : device_(device) {}
  ~Retirement();

  void add(std::unique_ptr<Retired> retired) noexcept;
  // Releases what may be released now.
  void poll() noexcept;
  // The host waits for the oldest; false when nothing is waiting.
  bool wait_for_oldest() noexcept;
  void drain() noexcept;

 private:
  std::unique_ptr<Retired> take_passed() noexcept;
  bool has_passed(Retired &retired) noexcept;

  Device &device_;
  std::mutex mutex_;
  std::unique_ptr<Retired> oldest_;
  Retired *newest_ = nullptr;
};

}  // namespace sluice

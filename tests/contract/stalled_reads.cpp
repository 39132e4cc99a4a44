#include "tests/contract/stalled_reads.h"

#include <utility>

namespace support {
namespace {

StalledReads *gate;

int64_t gated_read(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  gate->wait_if_held(offset);
  return sluice::os_native().read_at(descriptor, buffer, bytes, offset);
}

int64_t gated_uncached(int descriptor, void *buffer, size_t bytes, uint64_t offset) {
  gate->wait_if_held(offset);
  return sluice::os_native().read_uncached(descriptor, buffer, bytes, offset);
}

}  // namespace

StalledReads::StalledReads(sluice::OsTable *table) {
  gate = this;
  table->read_at = gated_read;
  table->read_uncached = gated_uncached;
  stall_queues(this, table);
}

void StalledReads::stall(const std::string &path, uint64_t from, uint64_t end) {
  const std::lock_guard lock(mutex_);
  path_ = path;
  from_ = from;
  end_ = end;
  begun_.clear();
  open_ = false;
}

bool StalledReads::note(uint64_t offset) {
  if (offset < from_ || offset >= end_) return false;
  begun_.insert(offset);
  changed_.notify_all();
  return !open_;
}

bool StalledReads::keep(uint64_t offset, std::function<void(const std::string &path)> release) {
  const std::lock_guard lock(mutex_);
  if (!note(offset)) return false;
  kept_.push_back(std::move(release));
  return true;
}

void StalledReads::wait_if_held(uint64_t offset) {
  std::unique_lock lock(mutex_);
  if (note(offset)) changed_.wait(lock, [&] { return open_; });
}

void StalledReads::wait_for_first() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !begun_.empty(); });
}

std::set<uint64_t> StalledReads::begun() {
  const std::lock_guard lock(mutex_);
  return begun_;
}

void StalledReads::let_through() {
  const std::lock_guard lock(mutex_);
  open_ = true;
  for (auto &release : std::exchange(kept_, {})) {
    release(path_);
    released_.push_back(std::move(release));
  }
  changed_.notify_all();
}

}  // namespace support

#include "runtime/os.h"

#include <atomic>

namespace sluice {
namespace {
std::atomic<const OsTable *> replaced{nullptr};
}

const OsTable &os() noexcept {
  const OsTable *table = replaced.load(std::memory_order_acquire);
  return table ? *table : os_native();
}

void os_replace(const OsTable *table) noexcept { replaced.store(table, std::memory_order_release); }

}  // namespace sluice

// Processes don't account together on Windows: each has the devices for itself.
#include <cstdio>

#include "state.h"

namespace emulated {

void open_shared_use(const std::string &) {
  std::fputs("[sluice emulated driver] SHARED is not there on Windows\n", stderr);
}
void close_shared_use() {}
bool charge_shared(int, uint64_t, uint64_t) { return true; }
void uncharge_shared(int, uint64_t) {}
uint64_t shared_used_by_others(int) { return 0; }

}  // namespace emulated

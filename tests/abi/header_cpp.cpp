// The public header as C++, the oldest and the newest standard that users are likely to have.
#include "sluice.h"

static_assert(sizeof(sluice_status) == sizeof(int), "statuses are passed as int by every FFI");

int main() {
  // The declaration must have C linkage, or this does not link.
  return sluice_version() != 0 ? 0 : 1;
}

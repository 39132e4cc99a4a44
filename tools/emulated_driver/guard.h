// Work on memory of the caller's, which may turn out not to be there.
#pragma once

#include <cstdint>

namespace emulated {

// What the work reads and writes; nullptr: nothing of the kind.
struct Touched {
  const void *source;
  void *target;
  uint64_t bytes;
};

// With each context, because the application may have set a handler of its own meanwhile.
void install_fault_handler();

// Runs body(argument); false when a byte could not be read or written. The body has no destructors
// to run and takes no locks.
bool run_guarded(const Touched &touched, void (*body)(const void *), const void *argument);

}  // namespace emulated

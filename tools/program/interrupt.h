// Interruption by SIGINT, SIGTERM and SIGHUP: the first one asks the running command to clean up
// and end with 128 + signal, the second one ends the process at once.
#pragma once

namespace program {

void watch_signals();

// The signal that arrived, 0 for none. Safe from any thread.
[[nodiscard]] int interrupted();

// Throws Failure CANCELLED when a signal has arrived.
void stop_if_interrupted();

}  // namespace program

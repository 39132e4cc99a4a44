// What the emulated driver asks of the process: its environment, and threads that take nothing of
// the application's.
#pragma once

#include <thread>

namespace emulated {

char **environment_entries();  // "NAME=value", up to a nullptr

// Starts a thread that gets none of the application's signals and wakes up in time. False where the
// system gives none.
bool start_quiet_thread(std::thread &thread, void (*body)(void *), void *argument);

}  // namespace emulated

// What the emulated driver asks of the process: its environment, and threads that take nothing of
// the application's.
#pragma once

#include <thread>

namespace emulated {

int process_number();
char **environment_entries();  // "NAME=value", up to a nullptr

// Calls body(argument) when the calling thread ends; at most one such call a thread.
void at_thread_end(void (*body)(void *), void *argument);

// Whether a thread may wait for the end of another in that call. Not on Windows: a lock of
// the loader is held meanwhile.
extern const bool kEndingThreadsMayJoin;

// Not on Windows: threads are ended first, whatever locks they hold.
extern const bool kThreadsRunUntilExit;

// Starts a thread that gets none of the application's signals and wakes up in time. False where the
// system gives none.
bool start_quiet_thread(std::thread &thread, void (*body)(void *), void *argument);

}  // namespace emulated

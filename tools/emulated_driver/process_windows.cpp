#include "process.h"

#include <stdlib.h>
#include <windows.h>

#include <system_error>

namespace emulated {

const bool kEndingThreadsMayJoin = false;

int process_number() { return static_cast<int>(GetCurrentProcessId()); }
char **environment_entries() { return _environ; }

bool start_quiet_thread(std::thread &thread, void (*body)(void *), void *argument) {
  try {
    thread = std::thread([body, argument] { body(argument); });
  } catch (const std::system_error &) {
  }
  return thread.joinable();
}

}  // namespace emulated

#include "process.h"

#include <stdlib.h>
#include <windows.h>

#include <system_error>

// Takes the place of pthread_key_delete, which the C++ runtime of this DLL calls when the process
// ends: winpthreads can wait there for ever for threads that Windows has ended before.
extern "C" int __wrap_pthread_key_delete(unsigned) { return 0; }

namespace emulated {

namespace {

struct End {
  void (*body)(void *);
  void *argument;
};

void WINAPI end_thread(void *value) {
  auto *end = static_cast<End *>(value);
  if (!end) return;
  end->body(end->argument);
  delete end;
}

// Not by a variable's destructor: winpthreads deletes the key behind those when the process ends,
// and can wait for ever for threads that are gone. The library stays loaded for the callback.
DWORD end_slot() {
  static const DWORD slot = [] {
    HMODULE own = nullptr;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN,
                       reinterpret_cast<LPCWSTR>(&end_thread), &own);
    return FlsAlloc(end_thread);
  }();
  return slot;
}

}  // namespace

void at_thread_end(void (*body)(void *), void *argument) {
  FlsSetValue(end_slot(), new End{body, argument});
}

const bool kEndingThreadsMayJoin = false;
const bool kThreadsRunUntilExit = false;

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

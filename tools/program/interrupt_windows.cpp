#include "tools/program/interrupt.h"

#include <windows.h>

#include <atomic>
#include <csignal>

#include "tools/program/failure.h"

namespace program {
namespace {

std::atomic<int> arrived_signal{0};

// The first Ctrl-C asks for an end, the second one ends.
BOOL WINAPI remember_event(DWORD event) {
  const int signal_number = event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT ? SIGINT : SIGTERM;
  return arrived_signal.exchange(signal_number) == 0 ? TRUE : FALSE;
}

}  // namespace

void watch_signals() { SetConsoleCtrlHandler(remember_event, TRUE); }

int interrupted() { return arrived_signal.load(); }

void stop_if_interrupted() {
  if (interrupted() != 0) throw Failure(sluice_status_name(SLUICE_CANCELLED), "interrupted");
}

}  // namespace program

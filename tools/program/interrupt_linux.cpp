#include "tools/program/interrupt.h"

#include <atomic>
#include <csignal>

#include <signal.h>

#include "tools/program/failure.h"

namespace program {
namespace {

std::atomic<int> arrived_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

void remember_signal(int signal_number) { arrived_signal.store(signal_number); }

void watch(int signal_number) {
  struct sigaction before {};
  sigaction(signal_number, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;  // nohup, or a job in the background
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = static_cast<int>(SA_RESTART | SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(signal_number, &action, nullptr);
}

}  // namespace

void watch_signals() {
  watch(SIGINT);
  watch(SIGTERM);
  watch(SIGHUP);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of write
  std::signal(SIGXFSZ, SIG_IGN);  // and so is a limit on the size of files
}

int interrupted() { return arrived_signal.load(); }

void stop_if_interrupted() {
  if (interrupted() != 0) throw Failure(sluice_status_name(SLUICE_CANCELLED), "interrupted");
}

}  // namespace program

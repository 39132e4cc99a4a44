#include "process.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <system_error>

namespace emulated {

void at_thread_end(void (*body)(void *), void *argument) {
  struct End {
    void (*body)(void *) = nullptr;
    void *argument = nullptr;
    ~End() {
      if (body) body(argument);
    }
  };
  thread_local End end;
  end.body = body;
  end.argument = argument;
}

const bool kEndingThreadsMayJoin = true;
const bool kThreadsRunUntilExit = true;

int process_number() { return getpid(); }
char **environment_entries() { return environ; }

bool start_quiet_thread(std::thread &thread, void (*body)(void *), void *argument) {
  // The application's signals aren't ours to take; faults of our own arrive all the same.
  sigset_t all, old;
  sigfillset(&all);
  for (int keep : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&all, keep);
  pthread_sigmask(SIG_BLOCK, &all, &old);
  try {
    thread = std::thread([body, argument] {
      prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
      body(argument);
    });
    pthread_setname_np(thread.native_handle(), "emu-stream");
  } catch (const std::system_error &) {
  }
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  return thread.joinable();
}

}  // namespace emulated

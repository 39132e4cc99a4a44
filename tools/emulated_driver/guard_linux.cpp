// By faulting: SIGSEGV and SIGBUS of a guarded thread jump back. Invariant: they jump only inside
// run_guarded, where no destructor stands between.
#include "guard.h"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

namespace emulated {

namespace {

thread_local sigjmp_buf *volatile fault_jump = nullptr;
thread_local volatile sig_atomic_t chaining = 0;
struct sigaction previous_segv, previous_bus;

void on_fault(int number, siginfo_t *info, void *context) {
  sigjmp_buf *jump = fault_jump;
  if (jump) {
    fault_jump = nullptr;
    // What the thread had blocked before; sanitizers block everything while a handler runs.
    pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t *>(context)->uc_sigmask, nullptr);
    siglongjmp(*jump, 1);
  }
  const struct sigaction &previous = number == SIGSEGV ? previous_segv : previous_bus;
  const bool last = chaining || previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN;
  if (last) {
    // Back to the default; the faulting instruction runs again and ends the process properly.
    signal(number, SIG_DFL);
    return;
  }
  // The previous handler may call back the one that it replaced: this one.
  chaining = 1;
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(number, info, context);
  else
    previous.sa_handler(number);
  chaining = 0;
}

void install_handler(int number, struct sigaction &previous) {
  struct sigaction now {
  }, action{};
  if (sigaction(number, nullptr, &now) || now.sa_sigaction == on_fault) return;
  previous = now;
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void install_fault_handler() {
  install_handler(SIGSEGV, previous_segv);
  install_handler(SIGBUS, previous_bus);
}

__attribute__((noinline)) bool run_guarded(const Touched &, void (*body)(const void *),
                                           const void *argument) {
  sigjmp_buf jump;
  if (sigsetjmp(jump, 0)) return false;
  fault_jump = &jump;
  body(argument);
  fault_jump = nullptr;
  return true;
}

}  // namespace emulated

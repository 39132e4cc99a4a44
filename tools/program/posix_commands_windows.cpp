// The commands that are written for POSIX so far.
#include "tools/program/commands.h"
#include "tools/program/failure.h"

namespace program {
namespace {

[[noreturn]] void refuse(const char *command) {
  throw Failure(sluice_status_name(SLUICE_NOT_SUPPORTED),
                std::string("'sluice ") + command + "' isn't there on Windows yet");
}

}  // namespace

int run_bench(const Request &) { refuse("bench io"); }

}  // namespace program

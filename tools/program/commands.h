// The commands of the program, one source each. They throw Failure or UsageError, print their
// result, and return the exit status.
#pragma once

#include "tools/program/options.h"

namespace program {

[[nodiscard]] int run_doctor(const Request &request);
[[nodiscard]] int run_inspect(const Request &request);
[[nodiscard]] int run_load(const Request &request);
[[nodiscard]] int run_generate(const Request &request);
[[nodiscard]] int run_repack(const Request &request);
[[nodiscard]] int run_bench(const Request &request);

}  // namespace program

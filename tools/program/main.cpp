// The program `sluice`: what its commands share. It uses nothing but the public header.
#include <exception>
#include <new>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/interrupt.h"
#include "tools/program/output.h"
#include "tools/program/system.h"

namespace program {
namespace {

constexpr int kSignalExitBase = 128;

int run_command(const Request &request) {
  if (request.command == "doctor") return run_doctor(request);
  if (request.command == "inspect") return run_inspect(request);
  if (request.command == "load") return run_load(request);
  if (request.command == "generate") return run_generate(request);
  if (request.command == "repack") return run_repack(request);
  if (request.command == "bench") return run_bench(request);
  write_stdout(request.text);
  return kExitDone;
}

int report(const Failure &failure, bool json, int exit_status) {
  write_stderr(fmt::format("sluice: {}\n", printable(failure.what())));
  if (json) write_json({{"error", error_json(failure)}});
  return exit_status;
}

int run(int count, char **arguments) {
  const bool json = asks_for_json(count, arguments);
  try {
    return run_command(parse_command_line(count, arguments));
  } catch (const UsageError &error) {
    const Failure failure(sluice_status_name(SLUICE_INVALID_ARGUMENT), error.what());
    return report(failure, json, kExitUsage);
  } catch (const Failure &failure) {
    const bool cancelled = failure.status == sluice_status_name(SLUICE_CANCELLED);
    const int signal_number = cancelled ? interrupted() : 0;
    const int exit_status = signal_number != 0 ? kSignalExitBase + signal_number : kExitFailed;
    return report(failure, json, exit_status);
  } catch (const std::bad_alloc &) {
    const sluice_status status = SLUICE_OUT_OF_HOST_MEMORY;
    return report(Failure(sluice_status_name(status), sluice_status_text(status)), json,
                  kExitFailed);
  } catch (const std::exception &error) {
    return report(Failure(sluice_status_name(SLUICE_INTERNAL), error.what()), json, kExitFailed);
  }
}

}  // namespace
}  // namespace program

int main(int count, char **arguments) {
  try {
    program::secure_standard_streams();
    program::take_arguments(&count, &arguments);
    program::watch_signals();
    return program::run(count, arguments);
  } catch (const std::exception &error) {
    program::write_stderr(fmt::format("sluice: {}\n", error.what()));
    return program::kExitFailed;
  }
}

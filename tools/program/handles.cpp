#include "tools/program/handles.h"

#include "tools/program/failure.h"
#include "tools/program/progress.h"

namespace program {
namespace {

void write_log_line(void *, sluice_log_level, const char *line) { print_beside_progress(line); }

}  // namespace

Runtime create_runtime(sluice_options options) {
  options.log_function = write_log_line;
  sluice_runtime *runtime = nullptr;
  const sluice_status status = sluice_runtime_create(&options, &runtime);
  // Flags were checked one by one; what is left are their combinations and the environment.
  if (status == SLUICE_INVALID_ARGUMENT) throw UsageError(library_failure(status).what());
  check(status);
  return Runtime(runtime);
}

Device open_device(const Runtime &runtime, unsigned ordinal) {
  sluice_device *device = nullptr;
  check(sluice_device_open(runtime.get(), ordinal, &device));
  return Device(device);
}

Checkpoint open_checkpoint(const Runtime &runtime, const char *path) {
  sluice_checkpoint *checkpoint = nullptr;
  check(sluice_checkpoint_open(runtime.get(), path, &checkpoint));
  return Checkpoint(checkpoint);
}

}  // namespace program

// Owners of the library's objects. Declare them in the order runtime, device, checkpoint, buffer:
// C++ then destroys them in the order that the library asks for.
#pragma once

#include <memory>

#include "runtime/sluice.h"
#include "tools/program/sized.h"

namespace program {

template <auto destroy>
struct Destroyer {
  template <typename Object>
  void operator()(Object *object) const {
    static_cast<void>(destroy(object));
  }
};

struct BufferDestroyer {
  void operator()(sluice_buffer *buffer) const { sluice_buffer_destroy(buffer); }
};

using Runtime = std::unique_ptr<sluice_runtime, Destroyer<sluice_runtime_destroy>>;
using Device = std::unique_ptr<sluice_device, Destroyer<sluice_device_close>>;
using File = std::unique_ptr<sluice_file, Destroyer<sluice_file_close>>;
using Checkpoint = std::unique_ptr<sluice_checkpoint, Destroyer<sluice_checkpoint_close>>;
using Buffer = std::unique_ptr<sluice_buffer, BufferDestroyer>;

// Each throws Failure. The runtime's log lines go past the progress bar to stderr.
[[nodiscard]] Runtime create_runtime(sluice_options options);
[[nodiscard]] Device open_device(const Runtime &runtime, unsigned ordinal);
[[nodiscard]] Checkpoint open_checkpoint(const Runtime &runtime, const char *path);

}  // namespace program

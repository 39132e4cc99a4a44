// Kernels that the emulator can run, by name: their arguments, the memory each one touches, and a
// body for the host. A body runs on a stream's thread with pointers that the host may use.
#pragma once

#include <cstdint>

namespace emulated {

enum class ArgumentUse : uint8_t { scalar, read, write, read_write };

struct KernelArgument {
  ArgumentUse use;
  uint32_t size_bytes;                        // of the argument itself: 4 or 8
  uint64_t (*bytes)(const uint64_t *values);  // of what it points to, from all arguments' values
};

struct KernelEntry {
  const char *name;
  unsigned argument_count;
  const KernelArgument *arguments;
  // Pointers have been replaced by host addresses. The same values as on the device otherwise.
  void (*body)(const uint64_t *values);
};

// nullptr for a name that isn't in the table.
const KernelEntry *find_kernel(const char *name);
unsigned kernel_count();
const KernelEntry &kernel_at(unsigned i);

}  // namespace emulated

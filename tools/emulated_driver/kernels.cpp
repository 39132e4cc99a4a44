// The table of kernels. A kernel's numeric core is the header that the GPU build compiles too.
// Added here: the name, the arguments with the memory that each touches, the loop over elements.
#include "kernels.h"

#include <cstring>

#include "../../prefetch/kernels/cast_core.h"

namespace emulated {

namespace {

// sluice_cast(source, target, count, source_type, target_type)
uint64_t cast_source_bytes(const uint64_t *values) {
  return values[2] * sluice_cast_type_bytes(static_cast<uint32_t>(values[3]));
}
uint64_t cast_target_bytes(const uint64_t *values) {
  return values[2] * sluice_cast_type_bytes(static_cast<uint32_t>(values[4]));
}

void cast_body(const uint64_t *values) {
  const void *source = reinterpret_cast<const void *>(values[0]);
  void *target = reinterpret_cast<void *>(values[1]);
  for (uint64_t i = 0; i < values[2]; ++i)
    sluice_cast_element(source, target, i, static_cast<uint32_t>(values[3]),
                        static_cast<uint32_t>(values[4]));
}

const KernelArgument kCastArguments[] = {
    {ArgumentUse::read, 8, cast_source_bytes}, {ArgumentUse::write, 8, cast_target_bytes},
    {ArgumentUse::scalar, 8, nullptr},         {ArgumentUse::scalar, 4, nullptr},
    {ArgumentUse::scalar, 4, nullptr},
};

const KernelEntry kKernels[] = {
    {"sluice_cast", 5, kCastArguments, cast_body},
};

}  // namespace

const KernelEntry *find_kernel(const char *name) {
  for (const KernelEntry &kernel : kKernels)
    if (!std::strcmp(kernel.name, name)) return &kernel;
  return nullptr;
}

unsigned kernel_count() { return sizeof kKernels / sizeof *kKernels; }
const KernelEntry &kernel_at(unsigned i) { return kKernels[i]; }

}  // namespace emulated

// Compares device memory with an independent read of the file: plain pread in this program, in
// small pieces, past none of the code that loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/sluice.h"

namespace program {

struct VerifyResult {
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t mismatched_tensors = 0;
  std::vector<std::string> first_mismatches;  // of at most ten tensors: name and offset in it
  std::vector<std::string> first_names;
  double seconds = 0;
};

// `addresses` holds the device address of each tensor of the checkpoint. Throws Failure when
// either side can't be read.
[[nodiscard]] VerifyResult verify_tensors(sluice_checkpoint *checkpoint, sluice_device *device,
                                          const std::vector<uint64_t> &addresses);

}  // namespace program

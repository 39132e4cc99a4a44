// Compares a new checkpoint with the one that it was made of: metadata, names, types, shapes and
// every byte, by plain reads of both, past the code that copied.
#pragma once

#include <string>

#include "tools/program/repack_source.h"
#include "tools/program/verify.h"

namespace program {

// Throws Failure when either side can't be read, or the checkpoints differ in more than bytes.
[[nodiscard]] VerifyResult verify_repack(const RepackSource &source, const RepackSource &made);

}  // namespace program

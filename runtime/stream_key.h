// How a stream is known: handles are reused after destruction, ids are not. The per-thread default
// stream is one handle for many streams, so the thread belongs to its key.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "runtime/status.h"

namespace sluice {

class Device;

struct StreamKey {
  uint64_t id = 0;      // cuStreamGetId, or the handle where the driver has no ids
  uint64_t thread = 0;  // of a per-thread stream
  bool unique = false;  // the id can never come again

  bool operator==(const StreamKey &) const = default;
};

// Needs the device's context current. Fails with STREAM_CAPTURING on a stream that is capturing.
Result<StreamKey> identify_stream(const Device &device, CUstream stream);
// Only the key; also of a capturing stream.
Result<StreamKey> stream_key(const Device &device, CUstream stream);

}  // namespace sluice

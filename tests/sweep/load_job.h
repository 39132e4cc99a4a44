// The job that the sweeps repeat: everything from the runtime to the last byte of a checkpoint of
// 8 tensors through 3 slots, verified, and torn down again.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/session.h"

namespace support {

struct SweepInput {
  explicit SweepInput(bool gguf = false)
      : path(folder.file(gguf ? "model.gguf" : "model.safetensors")),
        data(gguf ? write_gguf(path, sizes, 7) : write_checkpoint(path, sizes, 7)) {}

  TemporaryFolder folder;
  std::string path;
  std::vector<size_t> sizes{70001, 1, 131072, 4096, 99999, 65536, 3, 120000};
  std::vector<unsigned char> data;
};

inline sluice_options three_slots() {
  sluice_options options = emulated_options();
  options.slot = 64 << 10;
  options.ring = 3 * options.slot;
  options.io_workers = 2;
  return options;
}

using Addresses = std::array<uint64_t, 8>;

// Allocates nothing: allocations may be failing.
inline bool same_bytes(sluice_device *device, const SweepInput &input, const Addresses &addresses) {
  size_t offset = 0;
  static unsigned char copy[1 << 17];
  for (size_t i = 0; i < input.sizes.size(); ++i) {
    const size_t bytes = input.sizes[i];
    // A failing copy is tried again: what is checked here are the bytes.
    sluice_status status = SLUICE_INTERNAL;
    for (int attempt = 0; attempt < 3 && status != SLUICE_OK; ++attempt)
      status = sluice_copy_to_host(device, addresses[i], bytes, nullptr, copy);
    if (status != SLUICE_OK) return false;
    if (std::memcmp(copy, input.data.data() + offset, bytes) != 0) return false;
    offset += bytes;
  }
  return true;
}

struct JobResult {
  sluice_status status = SLUICE_OK;
  bool wrong_bytes = false;
};

// Once; a failing step ends it, and everything that was made is given back.
inline JobResult run_load(const SweepInput &input, const sluice_options &options) {
  JobResult result;
  Session session(options);
  result.status = session.status();
  if (result.status != SLUICE_OK) return result;
  sluice_checkpoint *checkpoint = nullptr;
  sluice_buffer *buffer = nullptr;
  Addresses addresses{};
  result.status = sluice_checkpoint_open(session.runtime, input.path.c_str(), &checkpoint);
  if (result.status == SLUICE_OK)
    result.status = sluice_checkpoint_load(checkpoint, session.device, 0, nullptr, nullptr, nullptr,
                                           nullptr, &buffer, addresses.data());
  if (result.status == SLUICE_OK)
    result.wrong_bytes = !same_bytes(session.device, input, addresses);
  sluice_buffer_destroy(buffer);
  while (sluice_checkpoint_close(checkpoint) != SLUICE_OK) {
  }
  while (sluice_device_close(session.device) != SLUICE_OK) {
  }
  session.device = nullptr;
  return result;
}

}  // namespace support

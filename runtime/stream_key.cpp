#include "runtime/stream_key.h"

#include <atomic>

#include "runtime/device.h"

namespace sluice {
namespace {

// Never the same for two threads; the system's own thread ids come again.
uint64_t this_thread_number() noexcept {
  static std::atomic<uint64_t> next{1};
  thread_local const uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

std::string stream_name(CUstream stream) {
  return fmt::format("stream {:#x}", reinterpret_cast<uintptr_t>(stream));
}

}  // namespace

Result<StreamKey> stream_key(const Device &device, CUstream stream) {
  if (stream == nullptr) stream = CU_STREAM_LEGACY;
  StreamKey key;
  if (stream == CU_STREAM_PER_THREAD) key.thread = this_thread_number();
  const bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (is_default || !device.cuda().cuStreamGetId) {
    key.id = reinterpret_cast<uintptr_t>(stream);
    key.unique = is_default;
    return key;
  }
  unsigned long long id = 0;
  SLUICE_CUDA(device.driver(), cuStreamGetId, stream_name(stream), stream, &id);
  key.id = id;
  key.unique = true;
  return key;
}

Result<StreamKey> identify_stream(const Device &device, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  SLUICE_CUDA(device.driver(), cuStreamIsCapturing, stream_name(stream), stream, &status);
  if (status != CU_STREAM_CAPTURE_STATUS_NONE)
    return error(SLUICE_STREAM_CAPTURING, "{} is capturing a graph; end the capture first",
                 stream_name(stream));
  return stream_key(device, stream);
}

}  // namespace sluice

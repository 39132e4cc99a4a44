#include "runtime/stream_key.h"

#include <functional>
#include <thread>

#include "runtime/device.h"

namespace sluice {

Result<StreamKey> stream_key(const Device &device, CUstream stream) {
  if (stream == nullptr) stream = CU_STREAM_LEGACY;
  StreamKey key;
  if (stream == CU_STREAM_PER_THREAD)
    key.thread = std::hash<std::thread::id>{}(std::this_thread::get_id()) | 1;
  const bool is_default = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  if (is_default || !device.cuda().cuStreamGetId) {
    key.id = reinterpret_cast<uintptr_t>(stream);
    key.unique = is_default;
    return key;
  }
  unsigned long long id = 0;
  SLUICE_CUDA(device.driver(), cuStreamGetId, "", stream, &id);
  key.id = id;
  key.unique = true;
  return key;
}

Result<StreamKey> identify_stream(const Device &device, CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  SLUICE_CUDA(device.driver(), cuStreamIsCapturing, "", stream, &status);
  if (status != CU_STREAM_CAPTURE_STATUS_NONE)
    return error(SLUICE_STREAM_CAPTURING, "the stream is capturing a graph; end the capture first");
  return stream_key(device, stream);
}

}  // namespace sluice

// Names and texts of results.
#include "state.h"

namespace emulated {

namespace {

struct Result {
  CUresult code;
  const char *name;
  const char *text;
};

#define EMU_RESULT(name, text) \
  { name, #name, text }
const Result kResults[] = {
    EMU_RESULT(CUDA_SUCCESS, "no error"),
    EMU_RESULT(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    EMU_RESULT(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    EMU_RESULT(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    EMU_RESULT(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    EMU_RESULT(CUDA_ERROR_STUB_LIBRARY, "the library is a stub"),
    EMU_RESULT(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call needs a newer driver"),
    EMU_RESULT(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is busy or unavailable"),
    EMU_RESULT(CUDA_ERROR_NO_DEVICE, "no device is there"),
    EMU_RESULT(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    EMU_RESULT(CUDA_ERROR_INVALID_IMAGE, "the kernel image is invalid"),
    EMU_RESULT(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    EMU_RESULT(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    EMU_RESULT(CUDA_ERROR_UNMAP_FAILED, "unmapping failed"),
    EMU_RESULT(CUDA_ERROR_ALREADY_MAPPED, "the resource is mapped already"),
    EMU_RESULT(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image for this device"),
    EMU_RESULT(CUDA_ERROR_NOT_MAPPED, "the resource isn't mapped"),
    EMU_RESULT(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable memory error"),
    EMU_RESULT(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access isn't supported"),
    EMU_RESULT(CUDA_ERROR_INVALID_PTX, "PTX compilation failed"),
    EMU_RESULT(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "this execution affinity isn't supported"),
    EMU_RESULT(CUDA_ERROR_FILE_NOT_FOUND, "file not found"),
    EMU_RESULT(CUDA_ERROR_OPERATING_SYSTEM, "a call of the operating system failed"),
    EMU_RESULT(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    EMU_RESULT(CUDA_ERROR_ILLEGAL_STATE, "the object's state doesn't allow the operation"),
    EMU_RESULT(CUDA_ERROR_NOT_FOUND, "symbol not found"),
    EMU_RESULT(CUDA_ERROR_NOT_READY, "not ready"),
    EMU_RESULT(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access happened"),
    EMU_RESULT(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources asked for a launch"),
    EMU_RESULT(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out"),
    EMU_RESULT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    EMU_RESULT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access isn't enabled"),
    EMU_RESULT(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    EMU_RESULT(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed"),
    EMU_RESULT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
               "part of the host memory is registered already"),
    EMU_RESULT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory isn't registered"),
    EMU_RESULT(CUDA_ERROR_LAUNCH_FAILED, "the launch failed"),
    EMU_RESULT(CUDA_ERROR_NOT_PERMITTED, "the operation isn't permitted"),
    EMU_RESULT(CUDA_ERROR_NOT_SUPPORTED, "the operation isn't supported"),
    EMU_RESULT(CUDA_ERROR_SYSTEM_NOT_READY, "the system isn't ready"),
    EMU_RESULT(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "display driver and CUDA driver don't match"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is capturing"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
               "the capture was invalidated by an earlier error"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would be merged"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture didn't begin in this stream"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture has work that wasn't joined"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency crosses the capture's edge"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
               "the legacy stream would depend on a capturing stream"),
    EMU_RESULT(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capturing stream"),
    EMU_RESULT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture began in another thread"),
    EMU_RESULT(CUDA_ERROR_TIMEOUT, "a wait timed out"),
    EMU_RESULT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph update was refused"),
    EMU_RESULT(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef EMU_RESULT

const Result *find_result(CUresult code) {
  for (const Result &result : kResults)
    if (result.code == code) return &result;
  return nullptr;
}

}  // namespace

CUresult get_error_name(CUresult code, const char **out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Result *result = find_result(code);
  *out = result ? result->name : nullptr;
  return result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult code, const char **out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  const Result *result = find_result(code);
  *out = result ? result->text : nullptr;
  return result ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace emulated

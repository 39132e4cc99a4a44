// What a CUresult means, once for the whole library.
#include "runtime/driver_table.h"

namespace sluice {
namespace {

struct Meaning {
  sluice_status status;
  const char *remedy;
};

Meaning meaning_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {SLUICE_OUT_OF_DEVICE_MEMORY, "free memory of the GPU, or set a smaller --vram-limit"};
    case CUDA_ERROR_NO_DEVICE:
      return {SLUICE_NO_DEVICE, "no GPU is visible; CUDA_VISIBLE_DEVICES may hide it"};
    case CUDA_ERROR_INVALID_DEVICE:
      return {SLUICE_NO_DEVICE, "the ordinal must be below the number of GPUs"};
    case CUDA_ERROR_STUB_LIBRARY:
      return {SLUICE_NO_DRIVER,
              "this is the toolkit's stub library, not a driver; take its folder out of "
              "LD_LIBRARY_PATH"};
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return {SLUICE_NO_DRIVER, "the kernel module and the driver library do not fit together"};
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_DEVICE_NOT_LICENSED:
      return {SLUICE_NO_DEVICE, "the GPU is reserved by another process or not licensed"};
    case CUDA_ERROR_NOT_SUPPORTED:
      return {SLUICE_NOT_SUPPORTED, ""};
    case CUDA_ERROR_NOT_PERMITTED:
      return {SLUICE_NOT_PERMITTED, ""};
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
      return {SLUICE_NOT_SUPPORTED, "no kernel image of this library runs on the GPU"};
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_MERGE:
    case CUDA_ERROR_STREAM_CAPTURE_UNMATCHED:
    case CUDA_ERROR_STREAM_CAPTURE_UNJOINED:
    case CUDA_ERROR_STREAM_CAPTURE_ISOLATION:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
    case CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD:
    case CUDA_ERROR_CAPTURED_EVENT:
      return {SLUICE_STREAM_CAPTURING, "end the capture first"};
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_DEINITIALIZED:
      return {SLUICE_DEVICE_LOST,
              "earlier work on the GPU went wrong; the process has to be started again"};
    default:
      return {SLUICE_DRIVER_ERROR, ""};
  }
}

// Which memory a call was about: the same code means different things to the user.
Meaning refine(const char *call, CUresult result, Meaning meaning) {
  const std::string_view name = call;
  const bool host = name.starts_with("cuMemHost");
  if (host && result == CUDA_ERROR_OUT_OF_MEMORY)
    return {SLUICE_OUT_OF_PINNED_MEMORY,
            "the driver page-locks no more memory; set a smaller --pinned-limit or --ring"};
  if (host && (result == CUDA_ERROR_NOT_PERMITTED || result == CUDA_ERROR_OPERATING_SYSTEM))
    return {SLUICE_OUT_OF_PINNED_MEMORY, "the system refuses to page-lock this memory"};
  const bool allocates = name.starts_with("cuMemAlloc") || name == "cuMemCreate";
  if (name == "cuMemAddressReserve" && result == CUDA_ERROR_OUT_OF_MEMORY)
    return {SLUICE_OUT_OF_ADDRESS_SPACE, "other reservations of device addresses leave no room"};
  if (result == CUDA_ERROR_OUT_OF_MEMORY && !allocates)
    meaning.remedy = "the driver had no memory left for its own use; free memory of the GPU or RAM";
  return meaning;
}

}  // namespace

Status Driver::failure(const char *call, CUresult result, std::string_view what) const noexcept {
  try {
    const char *name = nullptr;
    const char *text = nullptr;
    if (table_.cuGetErrorName) table_.cuGetErrorName(result, &name);
    if (table_.cuGetErrorString) table_.cuGetErrorString(result, &text);
    const Meaning meaning = refine(call, result, meaning_of(result));
    ErrorRecord record{meaning.status, SLUICE_DOMAIN_CUDA, static_cast<int>(result), call, {}};
    record.message =
        fmt::format("{}{}{} failed with {} ({}): {}{}{}", what, what.empty() ? "" : ": ", call,
                    name ? name : "an unknown error", static_cast<int>(result), text ? text : "?",
                    *meaning.remedy ? "; " : "", meaning.remedy);
    return Status::from(std::move(record));
  } catch (...) {
    return Status::out_of_host_memory();
  }
}

}  // namespace sluice

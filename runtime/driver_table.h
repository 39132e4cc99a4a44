// The CUDA driver, opened at run time. No part of sluice links to libcuda.
//
// Each row names an entry point and the version NNNN that introduced the form that is used, and is
// asked of cuGetProcAddress with that NNNN: asked with a newer one, a driver returns another
// signature under the same name. A missing optional entry is a null pointer: a capability, not an
// error. Drivers from 11.8 on have all required rows.
//
// Threads: immutable once opened. Libraries are opened once per path and never closed: a driver
// can't be unloaded while its threads run.
#pragma once

#include <cuda.h>
#include <cudaTypedefs.h>

#include <string>

#include "runtime/status.h"

namespace sluice {

// R(entry point, version) must be there; O(entry point, version) may be missing.
#define SLUICE_DRIVER_ROWS(R, O)              \
  R(cuInit, 2000)                             \
  R(cuDriverGetVersion, 2020)                 \
  R(cuGetErrorName, 6000)                     \
  R(cuGetErrorString, 6000)                   \
  R(cuDeviceGet, 2000)                        \
  R(cuDeviceGetCount, 2000)                   \
  R(cuDeviceGetName, 2000)                    \
  R(cuDeviceGetAttribute, 2000)               \
  R(cuDeviceTotalMem, 3020)                   \
  R(cuDeviceGetUuid, 11040)                   \
  R(cuDeviceGetPCIBusId, 4010)                \
  R(cuDevicePrimaryCtxRetain, 7000)           \
  R(cuDevicePrimaryCtxRelease, 11000)         \
  R(cuCtxGetCurrent, 4000)                    \
  R(cuCtxSetCurrent, 4000)                    \
  R(cuCtxSynchronize, 2000)                   \
  R(cuMemGetInfo, 3020)                       \
  R(cuMemGetAllocationGranularity, 10020)     \
  R(cuMemAddressReserve, 10020)               \
  R(cuMemAddressFree, 10020)                  \
  R(cuMemCreate, 10020)                       \
  R(cuMemRelease, 10020)                      \
  R(cuMemMap, 10020)                          \
  R(cuMemUnmap, 10020)                        \
  R(cuMemSetAccess, 10020)                    \
  R(cuMemHostRegister, 6050)                  \
  R(cuMemHostUnregister, 4000)                \
  R(cuMemcpyHtoDAsync, 3020)                  \
  R(cuMemcpyDtoHAsync, 3020)                  \
  R(cuStreamCreate, 2000)                     \
  R(cuStreamDestroy, 4000)                    \
  R(cuStreamSynchronize, 2000)                \
  R(cuStreamWaitEvent, 3020)                  \
  R(cuStreamIsCapturing, 10000)               \
  R(cuThreadExchangeStreamCaptureMode, 10010) \
  R(cuEventCreate, 2000)                      \
  R(cuEventRecord, 2000)                      \
  R(cuEventQuery, 2000)                       \
  R(cuEventSynchronize, 2000)                 \
  R(cuEventDestroy, 4000)                     \
  R(cuModuleLoadData, 2000)                   \
  R(cuModuleUnload, 2000)                     \
  R(cuModuleGetFunction, 2000)                \
  R(cuLaunchKernel, 4000)                     \
  R(cuPointerGetAttributes, 7000)             \
  O(cuStreamGetId, 12000)                     \
  O(cuMemcpyBatchAsync, 12080)

struct DriverTable {
#define SLUICE_ROW(name, version) PFN_##name##_v##version name = nullptr;
  SLUICE_DRIVER_ROWS(SLUICE_ROW, SLUICE_ROW)
#undef SLUICE_ROW
};

class Driver {
 public:
  // `choice`: "auto", "emulated" or a path. cuInit has been called. Never freed.
  static Result<const Driver *> open(const std::string &choice);

  const DriverTable &table() const noexcept { return table_; }
  int version() const noexcept { return version_; }
  const std::string &path() const noexcept { return path_; }
  bool emulated() const noexcept { return emulated_; }

  // The status of a failed driver call. `what` says on what, "" for nothing.
  Status failure(const char *call, CUresult result, std::string_view what = {}) const noexcept;

 private:
  Driver() = default;
  static Result<std::unique_ptr<Driver>> load(const std::string &library_name, bool is_auto);
  Status check_version(void *get_version);
  Status load_rows(void *library);
  Status initialise(bool is_auto);

  DriverTable table_;
  int version_ = 0;
  std::string path_;
  bool emulated_ = false;
};

// After exit() has begun nothing calls the driver any more.
bool process_is_exiting() noexcept;
// True in a child of fork after a driver was opened in the parent.
bool process_was_forked() noexcept;

}  // namespace sluice

// SLUICE_CUDA(driver, cuMemMap, "buffer", args...): calls and returns early on failure.
#define SLUICE_CUDA(driver, function, what, ...)                              \
  do {                                                                        \
    if (const CUresult sluice_code_ = (driver).table().function(__VA_ARGS__); \
        sluice_code_ != CUDA_SUCCESS)                                         \
      return (driver).failure(#function, sluice_code_, what);                 \
  } while (false)

// cuGetProcAddress: by base name and version, the newest form that is not newer than the version
// asked for, nor than the driver. Threads: any; reads the constant table.
#include <cstring>

#include "gate.h"
#include "settings.h"

namespace emulated {

namespace {

struct Found {
  const Row *row = nullptr;
  bool known = false;  // a form of that name exists in this driver, if not in the version asked for
};

Found find_row(const char *name, int version, bool per_thread) {
  Found found;
  const int driver = settings.version;
  for (unsigned i = 0; i < row_count; ++i) {
    const Row &row = rows[i];
    if (((row.traits & kPerThread) != 0) != per_thread || std::strcmp(row.name, name)) continue;
    if (entry_point_absent(row)) continue;
    found.known = true;
    if (row.since > version || row.since > driver) continue;
    if (!found.row || row.since > found.row->since) found.row = &row;
  }
  return found;
}

}  // namespace

CUresult get_proc_address_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
  constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  constexpr cuuint64_t kThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (out) *out = nullptr;
  if (status) *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (!name || !out || (flags & ~(kLegacy | kThread)) || flags == (kLegacy | kThread))
    return CUDA_ERROR_INVALID_VALUE;
  Found found;
  if (flags & kThread) found = find_row(name, version < 7000 ? 7000 : version, true);
  if (!found.row) {
    const Found legacy = find_row(name, version, false);
    found.row = legacy.row;
    found.known = found.known || legacy.known;
  }
  if (status && found.known) *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  if (!found.row) return CUDA_ERROR_NOT_FOUND;
  if (status) *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *out = found.row->function;
  return CUDA_SUCCESS;
}

CUresult get_proc_address(const char *name, void **out, int version, cuuint64_t flags) {
  return get_proc_address_v2(name, out, version, flags, nullptr);
}

}  // namespace emulated

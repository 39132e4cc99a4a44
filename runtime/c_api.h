// What every c_api.cpp shares: a body that lets no exception out and refuses forked children.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>

#include "runtime/driver_table.h"
#include "runtime/status.h"
#include "runtime/struct_size.h"

namespace sluice {

// Runs `body`, which returns Status, and publishes its failure.
template <typename Body>
sluice_status guarded(Body &&body) noexcept {
  if (process_was_forked())
    return publish(error(SLUICE_FORKED, "{}", sluice_status_text(SLUICE_FORKED)));
  try {
    return publish(body());
  } catch (const std::bad_alloc &) {
    return publish(Status::out_of_host_memory());
  } catch (const std::exception &exception) {
    return publish(error(SLUICE_INTERNAL, "unexpected exception: {}", exception.what()));
  } catch (...) {
    return publish(error(SLUICE_INTERNAL, "unexpected exception"));
  }
}

inline CUstream as_stream(void *stream) noexcept { return static_cast<CUstream>(stream); }

template <typename T>
Status need(const T *pointer, const char *name) noexcept {
  if (pointer) return {};
  return error(SLUICE_INVALID_ARGUMENT, "{} is NULL", name);
}

template <typename T>
Status need_result(T *pointer, const char *name) noexcept {
  if (!pointer) return error(SLUICE_INVALID_ARGUMENT, "{} is NULL", name);
  *pointer = T{};
  return {};
}

// Fills an info struct from `object`; on failure it keeps its struct_size and the rest is zero.
template <typename Object, typename Struct, typename Fill>
sluice_status fill_struct(Object *object, const char *object_name, Struct *out,
                          const char *out_name, Fill &&fill) noexcept {
  return guarded([&]() -> Status {
    SLUICE_TRY(check_struct(out, out_name));
    Struct value = {};
    Status status = need(object, object_name);
    if (status.ok()) status = fill(*object, value);
    write_struct(status.ok() ? value : Struct{}, out);
    return status;
  });
}

}  // namespace sluice

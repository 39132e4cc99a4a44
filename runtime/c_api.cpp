// The runtime's slice of the C API: thin bodies.
#include "runtime/c_api.h"

#include "runtime/device.h"
#include "runtime/runtime.h"
#include "runtime/stream_key.h"

using namespace sluice;

extern "C" {

uint32_t sluice_version(void) {
  return SLUICE_VERSION_MAJOR * 1000000 + SLUICE_VERSION_MINOR * 1000 + SLUICE_VERSION_PATCH;
}

sluice_status sluice_runtime_create(const sluice_options *options, sluice_runtime **out_runtime) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_runtime, "out_runtime"));
    SLUICE_ASSIGN(auto runtime, Runtime::create(options));
    *out_runtime = new sluice_runtime{std::move(runtime)};
    return {};
  });
}

sluice_status sluice_runtime_destroy(sluice_runtime *runtime) {
  if (!runtime || process_is_exiting() || process_was_forked()) return SLUICE_OK;
  return guarded([&]() -> Status {
    if (const std::string open = runtime->runtime->children().names(); !open.empty())
      return error(SLUICE_BUSY, "the runtime is still in use: {} (a checkpoint's shards are files)",
                   open);
    delete runtime;
    return {};
  });
}

sluice_status sluice_runtime_set_pinned_limit(sluice_runtime *runtime, uint64_t bytes) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(runtime, "runtime"));
    runtime->runtime->set_pinned_limit(bytes, "set by sluice_runtime_set_pinned_limit");
    return {};
  });
}

sluice_status sluice_stats_get(const sluice_runtime *runtime, sluice_stats *out_stats) {
  return fill_struct(runtime, "runtime", out_stats, "out_stats",
                     [](const sluice_runtime &from, sluice_stats &stats) -> Status {
                       Runtime &inner = *from.runtime;
#define SLUICE_COPY(name, meaning) stats.name = inner.counters().name.get();
                       SLUICE_STATS_LIST(SLUICE_COPY)
#undef SLUICE_COPY
                       stats.pinned_bytes = inner.pinned().used();
                       stats.pinned_peak_bytes = inner.pinned().peak();
                       stats.pinned_limit_bytes = inner.pinned().limit();
                       inner.fill_vram_stats(&stats);
                       return {};
                     });
}

sluice_status sluice_device_open(sluice_runtime *runtime, uint32_t ordinal,
                                 sluice_device **out_device) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_device, "out_device"));
    SLUICE_TRY(need(runtime, "runtime"));
    SLUICE_ASSIGN(Device * device, runtime->runtime->open_device(ordinal));
    *out_device = device->public_handle();
    return {};
  });
}

sluice_status sluice_device_close(sluice_device *device) {
  if (!device || process_is_exiting() || process_was_forked()) return SLUICE_OK;
  return guarded([&]() -> Status {
    const DriverScope scope = DriverScope::insist(*device->device);
    return device->device->runtime().close_device(device->device);
  });
}

sluice_status sluice_stream_synchronize(sluice_device *device, void *stream) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(device, "device"));
    Device &inner = *device->device;
    SLUICE_ASSIGN(auto scope, DriverScope::enter(inner));
    SLUICE_TRY(identify_stream(inner, as_stream(stream)).take_status());
    inner.counters().stream_waits.add();
    SLUICE_CUDA(inner.driver(), cuStreamSynchronize, "", as_stream(stream));
    return {};
  });
}

}  // extern "C"

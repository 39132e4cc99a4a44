// Files and reads in the C API: thin bodies.
#include "runtime/c_api.h"

#include "io/read_call.h"
#include "runtime/limits.h"

using namespace sluice;

extern "C" {

sluice_status sluice_file_open(sluice_runtime *runtime, const char *path, sluice_file **out_file) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_file, "out_file"));
    SLUICE_TRY(need(runtime, "runtime"));
    SLUICE_TRY(need(path, "path"));
    auto handle = std::make_unique<sluice_file>();
    SLUICE_ASSIGN(handle->owned, File::open(*runtime->runtime, path));
    handle->file = handle->owned.get();
    *out_file = handle.release();
    return {};
  });
}

sluice_status sluice_file_close(sluice_file *file) {
  if (!file || process_is_exiting() || process_was_forked()) return SLUICE_OK;
  return guarded([&]() -> Status {
    if (!file->owned)
      return error(SLUICE_INVALID_ARGUMENT, "{} belongs to a checkpoint, and is closed with it",
                   file->file->path());
    if (file->file->uses() != 0)
      return error(SLUICE_BUSY, "{}: {} reads use it", file->file->path(), file->file->uses());
    delete file;
    return {};
  });
}

sluice_status sluice_file_info_get(sluice_file *file, sluice_file_info *out_info) {
  return fill_struct(
      file, "file", out_info, "out_info", [](sluice_file &from, sluice_file_info &info) -> Status {
        File &inner = *from.file;
        info.size_bytes = inner.size_bytes();
        info.cached_bytes = inner.cached_bytes(0, inner.size_bytes());
        info.direct_io = inner.direct() >= 0;
        info.direct_alignment = info.direct_io ? static_cast<uint32_t>(kDirectAlignment) : 0;
        copy_text(info.direct_io_reason, inner.direct_reason());
        return {};
      });
}

sluice_status sluice_read_submit(sluice_device *device, const sluice_read_range *ranges,
                                 size_t count, void *stream, const sluice_read_options *options,
                                 sluice_read **out_read) {
  const sluice_read_part part = {device, ranges, count, stream};
  return sluice_read_submit_parts(&part, 1, options, out_read);
}

sluice_status sluice_read_submit_parts(const sluice_read_part *parts, size_t part_count,
                                       const sluice_read_options *options, sluice_read **out_read) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_read, "out_read"));
    SLUICE_TRY(need(parts, "parts"));
    if (part_count == 0 || part_count > kMaxReadParts)
      return error(SLUICE_INVALID_ARGUMENT, "{} parts; 1 to {} are possible", part_count,
                   kMaxReadParts);
    sluice_read_options known{};
    if (options) SLUICE_TRY(read_struct(*options, "sluice_read_options", &known));
    SLUICE_ASSIGN(auto read, start_read({parts, part_count}, known));
    *out_read = read.release();
    return {};
  });
}

sluice_status sluice_read_set_urgency(sluice_read *read, uint32_t urgency) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(read, "read"));
    return set_urgency(*read, urgency);
  });
}

sluice_status sluice_read_wait(sluice_read *read) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(read, "read"));
    return finish_read(*read);
  });
}

sluice_status sluice_read_wait_range(sluice_read *read, size_t range, void *stream) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(read, "read"));
    return wait_for_range(*read, range, as_stream(stream));
  });
}

sluice_status sluice_read_range_arrived(sluice_read *read, size_t range, bool *out_arrived) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_arrived, "out_arrived"));
    SLUICE_TRY(need(read, "read"));
    SLUICE_ASSIGN(*out_arrived, range_arrived(*read, range));
    return {};
  });
}

sluice_status sluice_read_progress(const sluice_read *read, uint64_t *out_done,
                                   uint64_t *out_total) {
  return guarded([&]() -> Status {
    if (out_done) *out_done = 0;
    if (out_total) *out_total = 0;
    SLUICE_TRY(need(read, "read"));
    const ReadProgress progress = read_progress(*read);
    if (out_done) *out_done = progress.done_bytes;
    if (out_total) *out_total = progress.total_bytes;
    return {};
  });
}

sluice_status sluice_read_cancel(sluice_read *read) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need(read, "read"));
    cancel_read(*read);
    return {};
  });
}

void sluice_read_release(sluice_read *read) {
  if (!read || process_is_exiting() || process_was_forked()) return;
  if (may_release(*read)) delete read;
}

sluice_status sluice_io_info_get(sluice_device *device, sluice_io_info *out_info) {
  return fill_struct(device, "device", out_info, "out_info",
                     [](sluice_device &from, sluice_io_info &info) -> Status {
                       Reader *reader = from.device->existing_part<Reader>();
                       if (!reader) return {};
                       const PathTaken path = reader->last_path();
                       info.backend = path.uring ? SLUICE_IO_URING : SLUICE_IO_THREADS;
                       info.direct = path.direct;
                       info.fixed_buffers = reader->fixed_buffers();
                       copy_text(info.reason, path.reason);
                       return {};
                     });
}

}  // extern "C"

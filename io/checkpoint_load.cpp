// Loading a whole checkpoint: one buffer, each tensor at its own aligned place, one read.
#include "alloc/growable_buffer.h"
#include "io/checkpoint.h"
#include "io/read_call.h"
#include "runtime/c_api.h"
#include "runtime/limits.h"

namespace sluice {
namespace {

struct Layout {
  std::vector<uint64_t> offsets;  // of each tensor in the buffer
  uint64_t total_bytes = 0;
};

Result<Layout> lay_out(const Checkpoint &checkpoint, uint64_t alignment) {
  Layout layout;
  layout.offsets.reserve(checkpoint.tensor_count());
  for (uint64_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const uint64_t start = (layout.total_bytes + alignment - 1) / alignment * alignment;
    layout.offsets.push_back(start);
    if (__builtin_add_overflow(start, checkpoint.tensor(i).size_bytes, &layout.total_bytes))
      return error(SLUICE_BAD_FORMAT, "the tensors need more than 64 bits of addresses");
  }
  return layout;
}

// One for each tensor, an empty one too: a range's index is the tensor's.
std::vector<sluice_read_range> ranges_of(sluice_checkpoint &handle, const Layout &layout,
                                         uint64_t base) {
  const Checkpoint &checkpoint = *handle.checkpoint;
  std::vector<sluice_read_range> ranges;
  ranges.reserve(layout.offsets.size());
  for (uint64_t i = 0; i < checkpoint.tensor_count(); ++i) {
    const CheckpointTensor tensor = checkpoint.tensor(i);
    ranges.push_back({&handle.files[tensor.shard], tensor.file_offset, tensor.size_bytes,
                      base + layout.offsets[i], nullptr, tensor.header.name.data()});
  }
  return ranges;
}

struct How {
  CUstream stream;
  sluice_read_options options;
  sluice_progress_function progress;
  void *user;
};

// Waits while telling how far it is. The last call is made when all has arrived.
Status wait_with_progress(sluice_read &read, const How &how) {
  constexpr uint32_t kTickMs = 50;
  if (!how.progress) return finish_read(read);
  while (!wait_for_read(read, kTickMs)) {
    const ReadProgress so_far = read_progress(read);
    if (!how.progress(how.user, so_far.done_bytes, so_far.total_bytes)) cancel_read(read);
  }
  const uint64_t total = read_progress(read).total_bytes;
  SLUICE_TRY(finish_read(read));
  how.progress(how.user, total, total);
  return {};
}

Status read_into(sluice_checkpoint &handle, GrowableBuffer &buffer, const Layout &layout,
                 const How &how) {
  const auto ranges = ranges_of(handle, layout, buffer.address());
  if (ranges.empty()) return {};
  sluice_device device{&buffer.device()};
  const sluice_read_part part = {&device, ranges.data(), ranges.size(), how.stream};
  SLUICE_ASSIGN(const auto read, start_read({&part, 1}, how.options));
  return wait_with_progress(*read, how);
}

Result<std::unique_ptr<sluice_buffer>> load(sluice_checkpoint &handle, Device &device,
                                            const Layout &layout, const How &how) {
  SLUICE_ASSIGN(auto scope, DriverScope::enter(device));
  auto result = std::make_unique<sluice_buffer>();
  const uint64_t bytes = std::max<uint64_t>(layout.total_bytes, 1);
  SLUICE_ASSIGN(result->buffer, GrowableBuffer::create(device, bytes));
  SLUICE_TRY(result->buffer->grow(bytes));
  SLUICE_TRY(read_into(handle, *result->buffer, layout, how));
  return result;
}

Result<uint64_t> checked_alignment(uint64_t alignment) {
  if (alignment == 0) return kTensorAlignment;
  if ((alignment & (alignment - 1)) != 0 || alignment > kMaxTensorAlignment)
    return error(SLUICE_INVALID_ARGUMENT, "alignment {}: a power of two up to {} is needed",
                 alignment, kMaxTensorAlignment);
  return alignment;
}

}  // namespace
}  // namespace sluice

using namespace sluice;

extern "C" sluice_status sluice_checkpoint_load(sluice_checkpoint *checkpoint,
                                                sluice_device *device, uint64_t alignment,
                                                void *stream, const sluice_read_options *options,
                                                sluice_progress_function progress, void *user,
                                                sluice_buffer **out_buffer,
                                                uint64_t *out_addresses) {
  return guarded([&]() -> Status {
    SLUICE_TRY(need_result(out_buffer, "out_buffer"));
    SLUICE_TRY(need(checkpoint, "checkpoint"));
    SLUICE_TRY(need(device, "device"));
    How how{as_stream(stream), {}, progress, user};
    if (options) SLUICE_TRY(read_struct(*options, "sluice_read_options", &how.options));
    SLUICE_ASSIGN(const uint64_t step, checked_alignment(alignment));
    SLUICE_ASSIGN(const Layout layout, lay_out(*checkpoint->checkpoint, step));
    SLUICE_ASSIGN(auto buffer, load(*checkpoint, *device->device, layout, how));
    for (size_t i = 0; out_addresses && i < layout.offsets.size(); ++i)
      out_addresses[i] = buffer->buffer->address() + layout.offsets[i];
    device->device->children().opened(ChildKind::kBuffer);
    *out_buffer = buffer.release();
    return {};
  });
}

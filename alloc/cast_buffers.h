// One growable scratch buffer per stream (R2), reused in that stream's order with no host wait.
//
// Threads: any; the lock covers the map alone, growing is under the buffer's own.
#pragma once

#include <mutex>
#include <vector>

#include "alloc/growable_buffer.h"

namespace sluice {

class CastBuffers final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kCastBuffers;
  static Result<std::unique_ptr<CastBuffers>> create(Device &device);
  ~CastBuffers() override;
  Status close() override;

  Result<uint64_t> get(CUstream stream, uint64_t bytes);
  // Gives a stream's scratch back once its queued work has passed.
  Status free_stream(CUstream stream);

 private:
  struct Entry {
    StreamKey key;
    std::shared_ptr<GrowableBuffer> buffer;
  };

  explicit CastBuffers(Device &device) : device_(device) {}
  std::shared_ptr<GrowableBuffer> find(const StreamKey &key);
  Result<std::shared_ptr<GrowableBuffer>> find_or_make(const StreamKey &key);

  Device &device_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

}  // namespace sluice

// The growable buffers of one device by address, so that work which sluice itself queues can keep
// alive the memory that it writes to.
//
// Threads: any; the lock is held for look-ups alone.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "runtime/device.h"

namespace sluice {

class GrowableBuffer;

class BufferIndex final : public DevicePart {
 public:
  static constexpr PartSlot kSlot = PartSlot::kBufferIndex;
  static Result<std::unique_ptr<BufferIndex>> create(Device &) {
    return std::make_unique<BufferIndex>();
  }
  Status close() override { return {}; }

  void add(const std::shared_ptr<GrowableBuffer> &buffer);
  void remove(const GrowableBuffer &buffer) noexcept;
  // The buffer that `address` lies in; nullptr when it is none of ours.
  std::shared_ptr<GrowableBuffer> find(uint64_t address);

 private:
  std::mutex mutex_;
  std::map<uint64_t, std::weak_ptr<GrowableBuffer>> by_address_;
};

}  // namespace sluice

// One GPU of a runtime: its primary context, facts, VRAM budget, events and retirement. What the
// floors above keep per device (pools, rings, kernels) hangs on it as parts.
//
// Threads: any. Parts are made on first use, under a lock of their own, and closed from the top
// floor down.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/budget.h"
#include "runtime/children.h"
#include "runtime/driver_table.h"
#include "runtime/events.h"
#include "runtime/retirement.h"
#include "runtime/runtime.h"
#include "runtime/status.h"

namespace sluice {
class Device;
}

// One for each open GPU, whoever opens it.
struct sluice_device {
  sluice::Device *device;
};

namespace sluice {

struct DeviceFacts {
  std::string name;
  std::string pci_bus_id;
  uint8_t uuid[16] = {};
  int compute_major = 0, compute_minor = 0;
  uint64_t total_bytes = 0;
  uint64_t granularity_bytes = 0;
  int numa_node = -1;
  bool integrated = false;
  bool read_only_host_register = false;
};

class DevicePart {
 public:
  virtual ~DevicePart() = default;
  // Gives back what can be given back while the device stays open, or says what is in use.
  virtual Status close() = 0;
};

// In the order of the floors; closed from the last to the first.
enum class PartSlot { kBufferIndex, kMemory, kCastBuffers, kArenas, kReader, kKernels, kCount };

class Device {
 public:
  static Result<std::unique_ptr<Device>> open(Runtime &runtime, uint32_t ordinal);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  sluice_device *public_handle() noexcept { return &public_handle_; }
  Runtime &runtime() const noexcept { return runtime_; }
  const Driver &driver() const noexcept { return *runtime_.driver(); }
  const DriverTable &cuda() const noexcept { return driver().table(); }
  Counters &counters() const noexcept { return runtime_.counters(); }
  const Log &log() const noexcept { return runtime_.log(); }
  const DeviceFacts &facts() const noexcept { return facts_; }
  uint32_t ordinal() const noexcept { return ordinal_; }
  CUdevice handle() const noexcept { return device_; }
  CUcontext context() const noexcept { return context_; }
  Budget &vram() noexcept { return vram_; }
  EventPool &events() noexcept { return *events_; }
  Retirement &retirement() noexcept { return *retirement_; }

  void set_vram_limit(uint64_t bytes) noexcept;
  uint64_t vram_beside_headroom() const noexcept;

  // Buffers, allocations and reads of the user, by which closing is refused.
  Children &children() noexcept { return children_; }

  // The part of type T, made if it isn't there. T::kSlot says where, T::create(device) makes it.
  template <typename T>
  Result<T *> part() {
    const auto index = static_cast<size_t>(T::kSlot);
    if (DevicePart *part = parts_[index].load(std::memory_order_acquire))
      return static_cast<T *>(part);
    const std::lock_guard lock(parts_mutexes_[index]);
    if (DevicePart *part = parts_[index].load(std::memory_order_acquire))
      return static_cast<T *>(part);
    SLUICE_ASSIGN(std::unique_ptr<T> made, T::create(*this));
    T *result = made.release();
    parts_[index].store(result, std::memory_order_release);
    return result;
  }
  template <typename T>
  T *existing_part() noexcept {
    return static_cast<T *>(parts_[static_cast<size_t>(T::kSlot)].load(std::memory_order_acquire));
  }

  // Closes the parts from the top floor down; then the device may be destroyed.
  Status close_parts();

 private:
  static constexpr size_t kParts = static_cast<size_t>(PartSlot::kCount);

  Device(Runtime &runtime, uint32_t ordinal, CUdevice device);
  Status read_facts();

  sluice_device public_handle_{this};
  Runtime &runtime_;
  const uint32_t ordinal_;
  const CUdevice device_;
  CUcontext context_ = nullptr;
  DeviceFacts facts_;
  Budget vram_{0};
  std::unique_ptr<EventPool> events_;
  std::unique_ptr<Retirement> retirement_;
  Children children_;
  std::array<std::mutex, kParts> parts_mutexes_;
  std::array<std::atomic<DevicePart *>, kParts> parts_{};
};

// For the time of one call: the device's context is current and the thread may make calls that a
// capture elsewhere in GLOBAL mode would forbid. Both are restored at the end.
class DriverScope {
 public:
  static Result<DriverScope> enter(const Device &device);
  // For giving back, which can't fail: a failing call is tried once more.
  static DriverScope insist(const Device &device) noexcept;
  DriverScope(DriverScope &&other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        previous_(other.previous_),
        mode_(other.mode_),
        switched_(other.switched_) {}
  DriverScope &operator=(DriverScope &&) = delete;
  ~DriverScope();

 private:
  DriverScope() = default;
  const Driver *driver_ = nullptr;
  CUcontext previous_ = nullptr;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool switched_ = false;
};

// The host waits for a stream or for the whole context, counted, on paths that can't fail: a
// failing wait is tried once more; after that the context is broken and runs nothing any more.
void wait_for_stream(const Device &device, CUstream stream) noexcept;
void wait_for_context(const Device &device) noexcept;

// Gives something back; a failing call is tried once more, then said and counted as lost.
template <typename Call>
bool give_back(const Device &device, const char *name, Call call) noexcept {
  if (process_is_exiting() || process_was_forked()) return false;
  CUresult result = call();
  if (result != CUDA_SUCCESS) result = call();
  if (result == CUDA_SUCCESS) return true;
  device.log().write(SLUICE_LOG_ERROR, "device", "{} failed with {}: something stays allocated",
                     name, static_cast<int>(result));
  return false;
}

}  // namespace sluice

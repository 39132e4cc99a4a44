// The plain program's way to a device, on the driver alone.
#pragma once

#include <cstdint>
#include <deque>

#include "tools/program/bench_driver.h"
#include "tools/program/bench_memory.h"
#include "tools/program/failure.h"

namespace program {

class DriverStream {
 public:
  explicit DriverStream(const BenchDriver &driver)
      : driver_(driver), stream_(driver.create_stream()) {}
  ~DriverStream() { driver_.destroy_stream(stream_); }
  DriverStream(const DriverStream &) = delete;
  DriverStream &operator=(const DriverStream &) = delete;
  [[nodiscard]] void *get() const { return stream_; }

 private:
  const BenchDriver &driver_;
  void *stream_;
};

class DriverEvent {
 public:
  explicit DriverEvent(const BenchDriver &driver)
      : driver_(driver), event_(driver.create_event()) {}
  ~DriverEvent() { driver_.destroy_event(event_); }
  DriverEvent(const DriverEvent &) = delete;
  DriverEvent &operator=(const DriverEvent &) = delete;
  [[nodiscard]] void *get() const { return event_; }

 private:
  const BenchDriver &driver_;
  void *event_;
};

// What a careful program without sluice would do: each thread has a few page-locked slots and a
// stream; a slot is read into, copied from, and used again when its copy has passed.
class PlainRing {
 public:
  PlainRing(const BenchDriver &driver, unsigned threads, uint64_t slot_bytes)
      : driver_(driver), slot_bytes_(slot_bytes), memory_(driver, threads * kSlots * slot_bytes) {
    touch_pages(memory_.data(), threads * kSlots * slot_bytes);
    for (unsigned i = 0; i < threads; ++i) lanes_.emplace_back(driver);
  }
  // No copy may use the memory when it goes.
  ~PlainRing() {
    for (const Lane &lane : lanes_) {
      try {
        driver_.synchronize_stream(lane.stream.get());
      } catch (const Failure &) {
        // The context is broken: nothing runs in it any more.
      }
    }
  }
  PlainRing(const PlainRing &) = delete;
  PlainRing &operator=(const PlainRing &) = delete;

  // Each thread has a lane of its own.
  template <typename Fill>
  void move(unsigned thread, uint64_t target, uint64_t bytes, const Fill &fill) {
    driver_.enter();
    Lane &lane = lanes_[thread];
    const size_t slot = lane.used % kSlots;
    if (lane.events.size() < kSlots) lane.events.emplace_back(driver_);
    if (lane.used >= kSlots) driver_.synchronize_event(lane.events[slot].get());
    unsigned char *memory = memory_.data() + (thread * kSlots + slot) * slot_bytes_;
    fill(memory);
    driver_.copy_to_device(target, memory, bytes, lane.stream.get());
    driver_.record(lane.events[slot].get(), lane.stream.get());
    ++lane.used;
  }

  void finish() const {
    for (const Lane &lane : lanes_) driver_.synchronize_stream(lane.stream.get());
  }

 private:
  static constexpr unsigned kSlots = 3;  // of each thread

  struct Lane {
    explicit Lane(const BenchDriver &driver) : stream(driver) {}
    DriverStream stream;
    std::deque<DriverEvent> events;  // of the slots, as they come into use
    size_t used = 0;
  };

  const BenchDriver &driver_;
  const uint64_t slot_bytes_;
  DriverMemory memory_;
  std::deque<Lane> lanes_;
};

}  // namespace program

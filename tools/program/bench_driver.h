// The CUDA driver without sluice: what a plain program would call. It is the library that sluice
// has opened already, real or emulated; nothing is linked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/sluice.h"

namespace program {

class BenchDriver {
 public:
  // The primary context of GPU `ordinal`, which is made current on this thread. Throws Failure.
  BenchDriver(const sluice_report &report, unsigned ordinal);
  ~BenchDriver();
  BenchDriver(const BenchDriver &) = delete;
  BenchDriver &operator=(const BenchDriver &) = delete;

  void enter() const;  // on every further thread
  [[nodiscard]] void *alloc_host(uint64_t bytes) const;
  void free_host(void *memory) const;
  void copy_to_device(uint64_t target, const void *source, uint64_t bytes) const;
  void copy_to_device(uint64_t target, const void *source, uint64_t bytes, void *stream) const;
  void fill(uint64_t target, unsigned char value, uint64_t bytes) const;
  [[nodiscard]] void *create_stream() const;
  void destroy_stream(void *stream) const;
  void synchronize_stream(void *stream) const;
  [[nodiscard]] void *create_event() const;
  void destroy_event(void *event) const;
  void record(void *event, void *stream) const;
  void synchronize_event(void *event) const;

 private:
  using Result = int;  // CUresult

  template <typename Function>
  void find(const char *name, Function **function);

  void *library_ = nullptr;
  int device_ = 0;
  void *context_ = nullptr;
  Result (*device_get_)(int *, int) = nullptr;
  Result (*context_retain_)(void **, int) = nullptr;
  Result (*context_release_)(int) = nullptr;
  Result (*context_set_)(void *) = nullptr;
  Result (*alloc_host_)(void **, size_t) = nullptr;
  Result (*free_host_)(void *) = nullptr;
  Result (*copy_)(uint64_t, const void *, size_t) = nullptr;
  Result (*copy_async_)(uint64_t, const void *, size_t, void *) = nullptr;
  Result (*fill_)(uint64_t, unsigned char, size_t) = nullptr;
  Result (*stream_create_)(void **, unsigned) = nullptr;
  Result (*stream_destroy_)(void *) = nullptr;
  Result (*stream_synchronize_)(void *) = nullptr;
  Result (*event_create_)(void **, unsigned) = nullptr;
  Result (*event_destroy_)(void *) = nullptr;
  Result (*event_record_)(void *, void *) = nullptr;
  Result (*event_synchronize_)(void *) = nullptr;
};

// Page-locked memory of the driver's own making.
class DriverMemory {
 public:
  DriverMemory(const BenchDriver &driver, uint64_t bytes)
      : driver_(driver), data_(static_cast<unsigned char *>(driver.alloc_host(bytes))) {}
  ~DriverMemory() { driver_.free_host(data_); }
  DriverMemory(const DriverMemory &) = delete;
  DriverMemory &operator=(const DriverMemory &) = delete;

  [[nodiscard]] unsigned char *data() const { return data_; }

 private:
  const BenchDriver &driver_;
  unsigned char *data_;
};

}  // namespace program

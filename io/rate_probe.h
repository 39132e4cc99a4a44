// How fast bytes come to a device through the ring, found out by moving some: from host memory that
// isn't pinned, and from the disk that files lie on.
//
// Needs the device's context current. Threads: one.
#pragma once

#include <memory>
#include <vector>

#include "io/reader.h"

namespace sluice {

class RateProbe {
 public:
  static Result<std::unique_ptr<RateProbe>> create(Device &device);
  ~RateProbe();
  RateProbe(const RateProbe &) = delete;
  RateProbe &operator=(const RateProbe &) = delete;

  // Bytes per second. Moves 3 x 128 MiB.
  Result<double> from_ram();
  // Up to 416 MiB, spread over the files; less from a slow disk. Around the page cache; where that
  // can't be, what isn't in it. 0: all of it is in the page cache, and the disk can't be reached.
  Result<double> from_disk(const std::vector<File *> &files);

 private:
  explicit RateProbe(Device &device, Reader &reader) : device_(device), reader_(reader) {}
  Status make_target();
  ReadPlan plan_disk(const std::vector<File *> &files, uint64_t pieces, uint64_t wave) const;
  void add_piece(ReadPlan &plan, ReadPiece piece) const;
  Result<double> seconds(ReadPlan plan, const std::vector<File *> &files);

  Device &device_;
  Reader &reader_;
  CUstream stream_ = nullptr;
  std::shared_ptr<GrowableBuffer> target_;  // a slot's worth: all copies go there
};

}  // namespace sluice

// Reads of a part of a file that don't end before they are let through, whichever way they go; what
// has begun one is held up no more than by a disk that hangs.
//
// Positioned reads wait at a gate. A read on a ring becomes one of an empty pipe, into which the
// file's bytes are written at last; one at a completion port reaches the system only then.
//
// Threads: any. What is begun between stall and let_through is held.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/os.h"

namespace support {

class StalledReads {
 public:
  explicit StalledReads(sluice::OsTable *table);  // one at a time; outlives the reads
  StalledReads(const StalledReads &) = delete;
  StalledReads &operator=(const StalledReads &) = delete;

  void stall(const std::string &path, uint64_t from, uint64_t end);
  void wait_for_first();
  void let_through();
  std::set<uint64_t> begun();  // offsets of the part's reads since `stall`

  // For the rows of the table. False: the read isn't held. Else `release` is called at last.
  bool keep(uint64_t offset, std::function<void(const std::string &path)> release);
  void wait_if_held(uint64_t offset);

 private:
  bool note(uint64_t offset);  // whether a read there is held; under the mutex

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  std::string path_;
  uint64_t from_ = 0, end_ = 0;
  std::set<uint64_t> begun_;
  std::vector<std::function<void(const std::string &)>> kept_;
  std::vector<std::function<void(const std::string &)>> released_;  // with what they own
};

// The rows of this system's queues, which ask `reads`.
void stall_queues(StalledReads *reads, sluice::OsTable *table);

}  // namespace support

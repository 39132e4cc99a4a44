#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "tests/contract/stalled_reads.h"

namespace support {
namespace {

StalledReads *held;

// Open as long as the ring may not have taken the read yet.
struct Pipe {
  Pipe() {
    if (::pipe2(ends, O_CLOEXEC) != 0) std::abort();
  }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  Pipe(const Pipe &) = delete;
  Pipe &operator=(const Pipe &) = delete;
  int ends[2] = {-1, -1};
};

// It has room for a slot, 64 KiB. What is read short goes on from the file itself.
void fill(const Pipe &pipe, const std::string &path, uint64_t offset, uint32_t bytes) {
  std::vector<unsigned char> data(bytes);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = ::pread(file, data.data(), bytes, static_cast<off_t>(offset));
  if (got <= 0 || ::write(pipe.ends[1], data.data(), static_cast<size_t>(got)) != got) std::abort();
  ::close(file);
}

void divert(io_uring_sqe &sqe) {
  const auto pipe = std::make_shared<Pipe>();
  const bool kept =
      held->keep(sqe.off, [pipe, offset = uint64_t{sqe.off}, bytes = uint32_t{sqe.len}](
                              const std::string &path) { fill(*pipe, path, offset, bytes); });
  if (!kept) return;
  sqe.fd = pipe->ends[0];
  sqe.flags = static_cast<uint8_t>(sqe.flags & ~IOSQE_FIXED_FILE);
  sqe.rw_flags = 0;
}

int submit_diverted(io_uring *ring, unsigned wait_for, uint32_t patience_ms) {
  for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; ++i) {
    io_uring_sqe &sqe = ring->sq.sqes[i & ring->sq.ring_mask];
    if (sqe.opcode == IORING_OP_READ || sqe.opcode == IORING_OP_READ_FIXED) divert(sqe);
  }
  return sluice::os_native().ring_submit(ring, wait_for, patience_ms);
}

}  // namespace

void stall_queues(StalledReads *reads, sluice::OsTable *table) {
  held = reads;
  table->ring_submit = submit_diverted;
}

}  // namespace support

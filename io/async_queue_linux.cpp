// The asynchronous queue on io_uring.
#include "io/async_queue.h"

#include <liburing.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "runtime/limits.h"
#include "runtime/os.h"

namespace sluice {
namespace {

const char *remedy_for(int error_number) {
  switch (error_number) {
    case EPERM:
      return "allow io_uring: sysctl kernel.io_uring_disabled=0, and a seccomp profile of the "
             "container that permits io_uring_setup, io_uring_enter and io_uring_register";
    case ENOSYS:
      return "use a kernel of 5.6 or newer that has io_uring";
    case ENOMEM:
      return "raise the locked-memory limit: ulimit -l";
    default:
      return "";
  }
}

Status refused_ring(const char *call, int error_number) {
  Status status = system_error(call, error_number, "a ring for reading");
  ErrorRecord record = status.record();
  // Rings of older kernels, and of users without privileges, count as locked memory.
  if (error_number == ENOMEM) record.code = SLUICE_OUT_OF_LOCKED_MEMORY;
  record.message += std::string("; ") + remedy_for(error_number);
  return Status::from(std::move(record));
}

class UringQueue final : public AsyncQueue {
 public:
  explicit UringQueue(Runtime &runtime) : runtime_(runtime) {}
  ~UringQueue() override;

  Status make(std::span<std::byte> fixed_memory, uint32_t depth);
  void submit(ReadOperation &operation) noexcept override;
  void flush() noexcept override;
  bool poll_one(Completion *out) noexcept override;
  Completion wait_one() noexcept override;
  void forget_files() noexcept override;

 private:
  static constexpr unsigned kFileSlots = 32;
  struct FileSlot {
    uint64_t file_id = 0;  // 0: none
    bool direct = false;
  };

  void register_what_may(std::span<std::byte> fixed_memory) noexcept;
  int fixed_file(const ReadOperation &operation, int descriptor) noexcept;
  Status try_out() noexcept;
  int enter_ring(unsigned wait_for, uint32_t patience_ms) noexcept;
  void enter(unsigned wait_for) noexcept;

  Runtime &runtime_;
  io_uring ring_{};
  bool made_ = false;
  std::array<FileSlot, kFileSlots> files_{};
  unsigned next_file_slot_ = 0;
  std::vector<ReadOperation *> not_taken_;  // in the order of submission; room for `depth`
};

Status UringQueue::make(std::span<std::byte> fixed_memory, uint32_t depth) {
  not_taken_.reserve(depth);
  io_uring_params params{};
  if (const int result = os().ring_init(std::max(depth, 4u), &ring_, &params); result < 0)
    return refused_ring("io_uring_setup", -result);
  made_ = true;
  SLUICE_TRY(try_out());
  register_what_may(fixed_memory);
  return {};
}

UringQueue::~UringQueue() {
  if (made_) os().ring_exit(&ring_);
}

// Some containers allow rings to be made and forbid to enter them.
Status UringQueue::try_out() noexcept {
  io_uring_prep_nop(io_uring_get_sqe(&ring_));
  if (const int result = enter_ring(1, 0); result < 0)
    return refused_ring("io_uring_enter", -result);
  io_uring_cqe *cqe = nullptr;
  if (io_uring_peek_cqe(&ring_, &cqe) != 0) return refused_ring("io_uring_enter", EIO);
  io_uring_cqe_seen(&ring_, cqe);
  return {};
}

void UringQueue::register_what_may(std::span<std::byte> fixed_memory) noexcept {
  if (!fixed_memory.empty()) {
    const iovec buffer{fixed_memory.data(), fixed_memory.size()};
    fixed_buffers_ = os().ring_register_buffers(&ring_, &buffer, 1) == 0;
    if (!fixed_buffers_) runtime_.counters().fixed_buffer_fallbacks.add();
  }
  std::array<int, kFileSlots> none;
  none.fill(-1);
  fixed_files_ = os().ring_register_files(&ring_, none.data(), kFileSlots) == 0;
}

// The index of the operation's file in the ring's table, or -1: use the descriptor.
int UringQueue::fixed_file(const ReadOperation &operation, int descriptor) noexcept {
  if (!fixed_files_) return -1;
  for (unsigned i = 0; i < kFileSlots; ++i)
    if (files_[i].file_id == operation.file->id() && files_[i].direct == operation.direct)
      return static_cast<int>(i);
  const unsigned index = next_file_slot_++ % kFileSlots;
  files_[index] = {};
  if (os().ring_update_file(&ring_, index, descriptor) != 0) return -1;
  files_[index] = {operation.file->id(), operation.direct};
  return static_cast<int>(index);
}

void UringQueue::forget_files() noexcept {
  for (unsigned i = 0; i < kFileSlots; ++i) {
    if (files_[i].file_id == 0) continue;
    // A file that can't be let go stays open with the ring, but is never found again.
    os().ring_update_file(&ring_, i, -1);
    files_[i] = {};
  }
}

void UringQueue::submit(ReadOperation &operation) noexcept {
  io_uring_sqe *sqe = io_uring_get_sqe(&ring_);  // the ring has room for the whole depth
  const int plain = operation.choose();
  const int index = fixed_file(operation, plain);
  const int descriptor = index >= 0 ? index : plain;
  if (operation.fixed)
    io_uring_prep_read_fixed(sqe, descriptor, operation.next_buffer(), operation.next_bytes(),
                             operation.next_offset(), 0);
  else
    io_uring_prep_read(sqe, descriptor, operation.next_buffer(), operation.next_bytes(),
                       operation.next_offset());
  if (operation.asked_uncached) sqe->rw_flags = kUncachedFlag;
  if (index >= 0) io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data(sqe, &operation);
  not_taken_.push_back(&operation);
}

bool UringQueue::poll_one(Completion *out) noexcept {
  io_uring_cqe *cqe = nullptr;
  unsigned head = 0;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    out->operation = static_cast<ReadOperation *>(io_uring_cqe_get_data(cqe));
    out->result = os().completion(cqe->res);
    out->performed = true;
    io_uring_cqe_seen(&ring_, cqe);
    return true;
  }
  return false;
}

// Submits what waits, and waits for completions. The operations taken, or the error that stays.
int UringQueue::enter_ring(unsigned wait_for, uint32_t patience_ms) noexcept {
  int result = 0;
  for (uint32_t attempt = 0; attempt < kMaxReadAttempts; ++attempt) {
    result = os().ring_submit(&ring_, wait_for, patience_ms);
    if (result >= 0) return result;
    if (attempt > 4) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return result;
}

// A ring that keeps failing is broken.
void UringQueue::enter(unsigned wait_for) noexcept {
  const int result = enter_ring(wait_for, kQueuePatienceMs);
  if (result >= 0) {
    const auto taken = std::min(static_cast<size_t>(result), not_taken_.size());
    not_taken_.erase(not_taken_.begin(), not_taken_.begin() + static_cast<ptrdiff_t>(taken));
    return;
  }
  broken_ = true;
  runtime_.counters().uring_fallbacks.add();
  runtime_.log().write(SLUICE_LOG_WARNING, "io",
                       "io_uring_enter failed with {} ({}): positioned reads "
                       "take its place",
                       std::generic_category().message(-result), -result);
}

void UringQueue::flush() noexcept {
  if (!not_taken_.empty() && !broken_) enter(0);
}

AsyncQueue::Completion UringQueue::wait_one() noexcept {
  Completion completion;
  if (poll_one(&completion)) return completion;
  if (!broken_) {
    enter(1);
  } else if (!not_taken_.empty()) {
    completion = {not_taken_.back(), 0, false};
    not_taken_.pop_back();
    return completion;
  } else {  // with the kernel: it completes without being entered
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  poll_one(&completion);
  return completion;
}

}  // namespace

Result<std::unique_ptr<AsyncQueue>> AsyncQueue::create(Runtime &runtime,
                                                       std::span<std::byte> fixed_memory,
                                                       uint32_t depth) {
  auto queue = std::make_unique<UringQueue>(runtime);
  SLUICE_TRY(queue->make(fixed_memory, depth));
  return std::unique_ptr<AsyncQueue>(std::move(queue));
}

const char *AsyncQueue::name() noexcept { return "io_uring"; }

AsyncQueueFacts probe_async_queue(Runtime &runtime) {
  AsyncQueueFacts facts;
  alignas(4096) static std::array<std::byte, 64 * kKiB> memory;
  auto queue = AsyncQueue::create(runtime, memory, 4);
  if (!queue.ok()) {
    facts.reason = queue.status().record().message;
    facts.remedy = remedy_for(queue.status().record().native_code);
    return facts;
  }
  facts.works = true;
  facts.fixed_buffers = queue.value()->fixed_buffers();
  facts.fixed_files = queue.value()->fixed_files();
  if (!facts.fixed_buffers) {
    facts.reason = "buffers can't be registered: the limit of locked memory is too small";
    facts.remedy = "raise it: ulimit -l, or LimitMEMLOCK= of the service";
  }
  return facts;
}

}  // namespace sluice

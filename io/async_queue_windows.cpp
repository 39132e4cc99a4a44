// The asynchronous queue on an I/O completion port. A handle belongs to one port for good, so each
// queue reads through handles of its own.
#include "io/async_queue.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/limits.h"
#include "runtime/os.h"

namespace sluice {
namespace {

class PortQueue final : public AsyncQueue {
 public:
  explicit PortQueue(Runtime &runtime) : runtime_(runtime) { fixed_files_ = true; }
  ~PortQueue() override;

  Status make(uint32_t depth);
  void submit(ReadOperation &operation) noexcept override;
  void flush() noexcept override {}  // each read was handed over at once
  bool poll_one(Completion *out) noexcept override;
  Completion wait_one() noexcept override;
  void forget_files() noexcept override;

 private:
  static constexpr unsigned kFileSlots = 32;
  struct FileSlot {
    uint64_t file_id = 0;  // 0: none
    bool direct = false;
    int descriptor = -1;
    uint32_t in_flight = 0;
  };
  struct Read {
    PortRead port;
    FileSlot *file = nullptr;
    ReadOperation *operation = nullptr;  // nullptr: free
  };

  FileSlot *slot_of(ReadOperation &operation) noexcept;
  FileSlot *idle_slot() noexcept;
  Completion complete(Read &read, int result) noexcept;
  void note_broken(int error_number) noexcept;

  Runtime &runtime_;
  intptr_t port_ = 0;
  bool made_ = false;
  std::array<FileSlot, kFileSlots> files_{};
  unsigned next_file_slot_ = 0;
  std::vector<Read> reads_;
  std::vector<Completion> at_once_;  // answered by the call itself
};

Status PortQueue::make(uint32_t depth) {
  reads_.resize(depth);
  at_once_.reserve(depth);
  if (const int result = os().port_open(&port_); result < 0)
    return system_error("CreateIoCompletionPort", -result, "a port for reading");
  made_ = true;
  return {};
}

PortQueue::~PortQueue() {
  forget_files();
  if (made_) os().port_close(port_);
}

void PortQueue::forget_files() noexcept {
  for (FileSlot &file : files_) {
    if (file.descriptor >= 0) os().close(file.descriptor);
    file = {};
  }
}

// The oldest one that nothing is read through.
PortQueue::FileSlot *PortQueue::idle_slot() noexcept {
  for (unsigned i = 0; i < kFileSlots; ++i) {
    FileSlot &file = files_[next_file_slot_++ % kFileSlots];
    if (file.in_flight != 0) continue;
    if (file.descriptor >= 0) os().close(file.descriptor);
    file = {};
    return &file;
  }
  return nullptr;
}

PortQueue::FileSlot *PortQueue::slot_of(ReadOperation &operation) noexcept {
  const int descriptor = operation.choose();
  for (FileSlot &file : files_)
    if (file.file_id == operation.file->id() && file.direct == operation.direct) return &file;
  FileSlot *file = idle_slot();
  if (!file) return nullptr;
  const int own = os().port_add_file(port_, descriptor);
  if (own < 0) return nullptr;
  *file = {operation.file->id(), operation.direct, own, 0};
  return file;
}

void PortQueue::submit(ReadOperation &operation) noexcept {
  FileSlot *file = slot_of(operation);
  if (!file) {
    runtime_.counters().uring_fallbacks.add();
    return at_once_.push_back({&operation, 0, false});
  }
  const auto found =
      std::find_if(reads_.begin(), reads_.end(), [](const Read &each) { return !each.operation; });
  Read &read = *found;
  read.port.owner = &read;
  read.file = file;
  read.operation = &operation;
  ++file->in_flight;
  const int result = os().port_read(file->descriptor, operation.next_buffer(),
                                    operation.next_bytes(), operation.next_offset(), &read.port);
  if (result == 0) return;
  at_once_.push_back(complete(read, result == -ENODATA ? 0 : result));
}

AsyncQueue::Completion PortQueue::complete(Read &read, int result) noexcept {
  --read.file->in_flight;
  return {std::exchange(read.operation, nullptr), os().completion(result), true};
}

void PortQueue::note_broken(int error_number) noexcept {
  broken_ = true;
  runtime_.counters().uring_fallbacks.add();
  runtime_.log().write(SLUICE_LOG_WARNING, "io",
                       "GetQueuedCompletionStatus failed with {}: positioned reads take its place",
                       error_number);
}

// The port is asked when there is nothing else to do; what was answered at once is here.
bool PortQueue::poll_one(Completion *out) noexcept {
  if (at_once_.empty()) return false;
  *out = at_once_.back();
  at_once_.pop_back();
  return true;
}

// What is in flight stays with the system until it is seen: after a failure there is nothing but
// to ask again.
AsyncQueue::Completion PortQueue::wait_one() noexcept {
  if (Completion completion; poll_one(&completion)) return completion;
  for (uint32_t attempt = 1;; ++attempt) {
    PortRead *read = nullptr;
    int result = 0;
    const int answer = os().port_wait(port_, kQueuePatienceMs, &read, &result);
    if (answer == 0 && !read) return {};
    if (answer == 0) return complete(*static_cast<Read *>(read->owner), result);
    if (attempt >= kMaxReadAttempts && !broken_) note_broken(-answer);
    if (attempt > 4) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

Result<std::unique_ptr<AsyncQueue>> AsyncQueue::create(Runtime &runtime, std::span<std::byte>,
                                                       uint32_t depth) {
  auto queue = std::make_unique<PortQueue>(runtime);
  SLUICE_TRY(queue->make(depth));
  return std::unique_ptr<AsyncQueue>(std::move(queue));
}

const char *AsyncQueue::name() noexcept { return "a completion port"; }

AsyncQueueFacts probe_async_queue(Runtime &runtime) {
  AsyncQueueFacts facts;
  const auto queue = AsyncQueue::create(runtime, {}, 4);
  facts.works = facts.fixed_files = queue.ok();
  facts.reason = queue.ok() ? "a completion port takes the place of io_uring"
                            : queue.status().record().message;
  return facts;
}

}  // namespace sluice

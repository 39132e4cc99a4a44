// Use of the devices across processes: a file in shared memory with a slot per process. A slot
// whose process has ended is taken back by whoever looks next; the lock is robust against a
// holder's death. Threads: any; the process-shared mutex. Without SHARED every function returns at
// once.
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state.h"

namespace emulated {

namespace {

constexpr uint32_t kReady = 0x5EED0001;
constexpr unsigned kSlots = 256;

struct Slot {
  pid_t pid;
  uint64_t started;  // the process's start time: numbers are reused
  uint64_t used[kMaxDevices];
};

struct Board {
  uint32_t ready;
  pthread_mutex_t mutex;
  Slot slots[kSlots];
};

Board *board = nullptr;
Slot *own = nullptr;

// Field 22 of /proc/<pid>/stat; 0 when there is no such process.
uint64_t start_time(pid_t pid) {
  char path[64], text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
  std::FILE *file = std::fopen(path, "r");
  if (!file) return 0;
  const size_t n = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[n] = 0;
  const char *at = std::strrchr(text, ')');
  for (int field = 2; at && field < 22; ++field) at = std::strchr(at + 1, ' ');
  return at ? std::strtoull(at + 1, nullptr, 10) : 0;
}

bool gone(const Slot &slot) { return slot.pid && start_time(slot.pid) != slot.started; }

class BoardLock {
 public:
  BoardLock() {
    if (pthread_mutex_lock(&board->mutex) == EOWNERDEAD) pthread_mutex_consistent(&board->mutex);
  }
  ~BoardLock() { pthread_mutex_unlock(&board->mutex); }
  BoardLock(const BoardLock &) = delete;
  BoardLock &operator=(const BoardLock &) = delete;
};

void prepare_board(int fd) {
  // The file lock orders the first process's set-up before all others' use.
  flock(fd, LOCK_EX);
  if (ftruncate(fd, sizeof(Board)) == 0) {
    void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) board = static_cast<Board *>(memory);
  }
  if (board && board->ready != kReady) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&board->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    board->ready = kReady;
  }
  flock(fd, LOCK_UN);
}

void take_slot() {
  BoardLock lock;
  for (Slot &slot : board->slots) {
    if (slot.pid && !gone(slot)) continue;
    slot = {};
    slot.pid = getpid();
    slot.started = start_time(slot.pid);
    own = &slot;
    return;
  }
}

uint64_t others_use(int device) {  // board locked
  uint64_t used = 0;
  for (Slot &slot : board->slots) {
    if (!slot.pid || &slot == own) continue;
    if (gone(slot)) slot = {};
    used += slot.used[device];
  }
  return used;
}

}  // namespace

void open_shared_use(const std::string &name) {
  const std::string path = "/sluice-emulated-" + name;
  const int fd = shm_open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  prepare_board(fd);
  close(fd);
  if (board) take_slot();
}

void close_shared_use() {
  if (!board) return;
  {
    BoardLock lock;
    if (own) *own = {};
  }
  munmap(board, sizeof(Board));
  board = nullptr;
  own = nullptr;
}

bool charge_shared(int device, uint64_t bytes, uint64_t limit_bytes) {
  if (!own) return true;
  BoardLock lock;
  const uint64_t used = others_use(device) + own->used[device];
  if (used > limit_bytes || bytes > limit_bytes - used) return false;
  own->used[device] += bytes;
  return true;
}

void uncharge_shared(int device, uint64_t bytes) {
  if (!own) return;
  BoardLock lock;
  own->used[device] -= bytes;
}

uint64_t shared_used_by_others(int device) {
  if (!own) return 0;
  BoardLock lock;
  return others_use(device);
}

}  // namespace emulated

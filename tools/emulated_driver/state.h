// What the emulated driver knows: devices, contexts, memory, streams, events, and the functions
// that its files offer each other.
//
// Locks, in the order in which they may be taken:
//   contexts mutex -> memory mutex (shared) -> capture mutex -> a context's stream-list mutex ->
//   a stream's mutex -> an event's mutex.
// None is held while queued work runs or while a caller waits for it; but for teardown, which holds
// the contexts mutex until the context's work is done. The state is never destroyed: streams'
// threads may still run when exit() runs destructors.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cuda_types.h"
#include "guard.h"
#include "pages.h"
#include "settings.h"
#include "slab.h"

namespace emulated {

inline constexpr int kMaxDevices = 8;
inline constexpr unsigned kMaxKernelArguments = 8;
inline constexpr unsigned kInlineDependencies = 2;

struct Context;
struct Stream;
struct Event;
struct Capture;
struct KernelEntry;

// ---- queued work -------------------------------------------------------------------------------

// A place in a stream's order: reached when the stream has completed `sequence` operations. Streams
// count on over their reuse, so that a point stays meaningful after its stream was destroyed.
struct Point {
  Stream *stream;
  uint64_t sequence;
};

enum class OpKind : uint8_t {
  nothing,
  copy,
  fill,
  kernel,
  host_function,
  callback,
  record,
  release
};

enum class Side : uint8_t { device, pinned, pageable };

struct CopyOp {
  uint64_t target;
  uint64_t source;
  uint64_t bytes;
  uint64_t sample;  // of a pinned source, when it was queued
  void *staged;     // a private copy of a pageable source, freed when the copy has run
  Side target_side;
  Side source_side;
  bool sampled;
  bool any_device;  // a peer copy: access of the stream's device isn't asked for
};

struct FillOp {
  uint64_t target;
  uint64_t bytes;
  uint32_t value;
  uint8_t width;
};

struct KernelOp {
  const KernelEntry *kernel;
  uint64_t arguments[kMaxKernelArguments];
};

struct HostOp {
  void (*function)(void *);
  CUstreamCallback callback;
  CUstream handle;
  void *user;
};

struct RecordOp {
  Event *event;
  uint64_t generation;
};

struct ReleaseOp {
  uint64_t address;
};

struct Op {
  OpKind kind = OpKind::nothing;
  uint8_t dependency_count = 0;
  uint64_t sequence = 0;
  Point dependencies[kInlineDependencies] = {};
  std::vector<Point> *more = nullptr;  // owned by the queue
  union {
    CopyOp copy;
    FillOp fill;
    KernelOp kernel;
    HostOp host;
    RecordOp record;
    ReleaseOp release;
  };
  Op() : kernel{} {}
};

// A growing ring: no allocation in a steady state.
class OpQueue {
 public:
  bool empty() const { return head_ == tail_; }
  size_t size() const { return tail_ - head_; }
  Op &front() { return ring_[head_ & (ring_.size() - 1)]; }
  Op &at(size_t i) { return ring_[(head_ + i) & (ring_.size() - 1)]; }
  void pop() { ++head_; }
  void push(const Op &op) {
    if (size() == ring_.size()) grow();
    ring_[tail_++ & (ring_.size() - 1)] = op;
  }

 private:
  void grow() {
    std::vector<Op> larger(ring_.empty() ? 16 : ring_.size() * 2);
    const size_t count = size();
    for (size_t i = 0; i < count; ++i) larger[i] = at(i);
    ring_.swap(larger);
    head_ = 0;
    tail_ = count;
  }
  std::vector<Op> ring_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

struct Piece {
  char *base;
  uint64_t bytes;
};

enum class StreamKind : uint8_t { created, legacy, per_thread };

struct Stream {
  std::atomic<bool> live{false};
  std::atomic<bool> blocking{true};
  StreamKind kind = StreamKind::created;
  Context *context = nullptr;
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  uint64_t id = 0;

  std::mutex mutex;  // guards the members below; the atomics are written under it
  std::condition_variable work;
  std::condition_variable done;
  OpQueue queue;  // what runs now stays at the front until it is done
  std::atomic<uint64_t> submitted{0};
  std::atomic<uint64_t> completed{0};
  unsigned waiters = 0;
  bool sleeping = false;
  bool stop = false;
  bool retiring = false;  // destroyed: goes back to the slab when the queue is empty
  std::thread thread;
  std::vector<Piece> targets, sources;  // of what runs now; for the stream's thread alone

  // Capture, guarded by the capture mutex; the pointer may be read without it.
  std::atomic<Capture *> capture{nullptr};
};

struct Event {
  std::atomic<bool> live{false};
  Context *context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;         // guards the members below
  uint64_t generation = 0;  // of records; counts on over reuse
  bool recorded = false;
  Point point{};
  uint64_t time_ns = 0;
  uint64_t capture_id = 0;  // not 0: last recorded inside that capture
  std::vector<uint64_t> capture_clock;
};

// ---- devices and contexts ----------------------------------------------------------------------

struct Link {
  std::mutex mutex;
  uint64_t free_at_ns = 0;
};

struct Device {
  int ordinal = 0;
  uint64_t bytes = 0;
  Store store;                         // the whole memory
  uint64_t window = 0;                 // where plain allocations' addresses lie
  std::map<uint64_t, uint64_t> spans;  // free: offset -> bytes; memory mutex
  uint64_t used_bytes = 0;             // memory mutex
  bool pretouched = false;
  Context *primary = nullptr;
  unsigned primary_references = 0;
  unsigned primary_flags = 0;
  Link links[2];  // host to device, device to host
  std::mutex engine_mutex;
  std::condition_variable engine_free;
  uint64_t engines_busy = 0;
};

struct Context {
  std::atomic<bool> live{false};
  std::atomic<int> sticky{0};
  Device *device = nullptr;
  bool primary = false;
  unsigned flags = 0;
  uint64_t id = 0;
  std::atomic<unsigned> peers{0};  // bit per device
  Stream *legacy = nullptr;
  std::mutex streams_mutex;
  std::vector<Stream *> streams;  // all but the legacy stream, retiring ones too
};

// ---- memory ------------------------------------------------------------------------------------

struct Physical {
  CUmemGenericAllocationHandle handle = 0;
  int device = -1;  // -1: host memory
  uint64_t offset = 0;
  uint64_t bytes = 0;
  unsigned references = 1;
  unsigned mappings = 0;
  CUmemAllocationProp properties{};
  Store store;  // of host memory
};

enum Access : uint8_t { kNoAccess = 0, kRead = 1, kReadWrite = 3 };

struct Mapping {
  uint64_t address = 0;
  uint64_t bytes = 0;
  Physical *physical = nullptr;  // nullptr: a plain allocation
  int device = -1;
  uint64_t offset = 0;
  uint8_t access[kMaxDevices] = {};
  bool pooled = false;
  bool releasing = false;  // cuMemFreeAsync is queued
  Context *context = nullptr;
};

struct Reservation {
  uint64_t bytes = 0;
};

struct Registration {
  uint64_t bytes = 0;
  unsigned flags = 0;
  bool allocated = false;  // cuMemHostAlloc
  Context *context = nullptr;
};

struct State {
  std::atomic<bool> initialized{false};
  int process = 0;  // that called cuInit
  std::mutex contexts_mutex;
  std::vector<std::unique_ptr<Device>> devices;
  Slab<Context, 4096> contexts;
  Slab<Stream, 1 << 16> streams;
  Slab<Event, 1 << 20> events;
  std::atomic<uint64_t> next_stream_id{1};
  std::atomic<uint64_t> next_context_id{1};

  std::shared_mutex memory_mutex;  // guards all below
  std::map<uint64_t, Mapping> mappings;
  std::map<uint64_t, Reservation> reservations;
  std::map<uint64_t, Registration> registrations;
  std::unordered_map<CUmemGenericAllocationHandle, std::unique_ptr<Physical>> physical;
  CUmemGenericAllocationHandle next_handle = 0x1000;
  uint64_t reserved_bytes = 0;
  uint64_t peak_physical_bytes = 0;
  uint64_t pinned_bytes = 0;
  uint64_t peak_pinned_bytes = 0;
};

extern State &state;

// ---- contexts.cpp ------------------------------------------------------------------------------
Context *current_context();
CUresult current_sticky();       // of the current context, CUDA_SUCCESS without one
Device *device_of(int ordinal);  // nullptr when there is none
void drain_context(Context &context);
bool any_context_live();
void forget_thread_contexts();
void drop_devices();  // reset: nothing live

// ---- memory.cpp --------------------------------------------------------------------------------
bool create_device_memory(Device &device);
void destroy_device_memory(Device &device);
void pretouch(Device &device);
// The next three need the memory mutex.
const Mapping *find_mapping(uint64_t address);
bool in_reservation(uint64_t address);
const Registration *find_registration(uint64_t address, uint64_t bytes, uint64_t *base,
                                      bool *partial);
// Appends where [address, address + bytes) lies; false when a byte isn't accessible that way.
// device < 0: access isn't asked for. Takes the memory mutex.
bool locate(uint64_t address, uint64_t bytes, int device, bool write, std::vector<Piece> &pieces);
void release_allocation(uint64_t address);
void *host_alias(uint64_t address, uint64_t bytes);
void free_context_memory(Context &context);

// ---- host_memory.cpp ---------------------------------------------------------------------------
bool charge_pinned(uint64_t bytes);  // memory mutex held
void uncharge_pinned(uint64_t bytes);
void free_context_host_memory(Context &context);

// ---- streams.cpp -------------------------------------------------------------------------------
// The handle's stream for the calling thread; nullptr after setting *why.
Stream *resolve_stream(CUstream handle, CUresult *why);
void use_per_thread_streams(bool on);  // for this call: what the NULL stream means
bool per_thread_streams();
Stream *default_stream(Context &context);
// Queues op behind all that the stream's order and the legacy stream's barriers ask for.
CUresult submit(Stream &stream, Op &op);
void wait_for(Point point);
Point last_point(Stream &stream);
void stop_streams(Context &context);
bool reached(Point point);
uint64_t pending_operations();
Stream *make_stream(Context &context, StreamKind kind, unsigned flags, int priority);
CUresult synchronize_stream(Stream &stream);
void add_dependency(Op &op, Point point);

// ---- execute.cpp: what runs on the streams' threads --------------------------------------------
void execute(Stream &stream, Op &op);
void discard(Op &op);  // frees what it owns
bool in_host_function();
uint64_t now_ns();
void sleep_until_ns(uint64_t time_ns);
uint64_t sample_bytes(const void *data, uint64_t bytes);

// ---- events.cpp --------------------------------------------------------------------------------
void complete_record(const RecordOp &record);
void stamp_record(Stream &stream, Op &op);  // the stream's mutex held, op's sequence known
void destroy_context_events(Context &context);

// ---- capture.cpp -------------------------------------------------------------------------------
extern std::atomic<unsigned> active_captures;
CUresult check_capture_safety();  // CUDA_SUCCESS, or 900 after invalidating
CUresult capture_op(Stream &stream, Op &op);
// Whether a blocking stream captures; a use of the legacy stream, not a question, invalidates that.
CUresult check_legacy_capture(Stream &legacy, bool invalidates);
CUresult refuse_captured(Stream &stream);  // query and synchronize of a capturing stream
CUresult capture_record(Stream &stream, Event &event);
CUresult capture_wait(Stream &stream, Event &event, bool *handled);
void abandon_captures(Context &context);
uint64_t live_graphs();

// ---- modules.cpp -------------------------------------------------------------------------------
uint64_t live_modules();
void unload_context_modules(Context &context);

// ---- misuse.cpp --------------------------------------------------------------------------------
bool misuse_on();
void report_misuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Reports each queued operation that still uses [address, address + bytes). what: "unmapped", ...
void report_pending_use(uint64_t address, uint64_t bytes, const char *what);
// Is queued work still to write (or may it write: host functions) that host range?
bool pending_host_writer(uint64_t address, uint64_t bytes);
extern std::atomic<uint64_t> pending_host_writers;
bool writes_host(const Op &op);
void report_leaks(Context *context, const char *when);
uint64_t misuse_count();
size_t misuse_text(uint64_t i, char *text, size_t capacity);
void clear_misuse();

// ---- shared_use.cpp ----------------------------------------------------------------------------
void open_shared_use(const std::string &name);
void close_shared_use();
// Accounts for bytes on a device; false when all processes together would exceed limit_bytes.
bool charge_shared(int device, uint64_t bytes, uint64_t limit_bytes);
void uncharge_shared(int device, uint64_t bytes);
uint64_t shared_used_by_others(int device);

}  // namespace emulated

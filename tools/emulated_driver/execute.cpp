// What runs on the streams' threads: copies, memsets, kernels, host functions.
// Ranges are looked up when the work runs; a bad one, or a fault while bytes are moved, becomes the
// context's sticky error. Locks: the memory mutex while ranges are looked up, none while bytes
// move.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"
#include "state.h"

namespace emulated {

namespace {

constexpr uint64_t kStreamedStoreBytes = 256u << 10;

thread_local bool inside_host_function = false;

#if defined(__x86_64__)
// Device memory isn't read back soon: stores that bypass the cache leave it to the reader's side.
__attribute__((target("avx2"))) void copy_streamed(char *target, const char *source,
                                                   uint64_t bytes) {
  const uint64_t head = (32 - (reinterpret_cast<uintptr_t>(target) & 31)) & 31;
  std::memcpy(target, source, head);
  target += head, source += head, bytes -= head;
  for (; bytes >= 128; target += 128, source += 128, bytes -= 128) {
    const __m256i *from = reinterpret_cast<const __m256i *>(source);
    __m256i *to = reinterpret_cast<__m256i *>(target);
    const __m256i a = _mm256_loadu_si256(from), b = _mm256_loadu_si256(from + 1);
    const __m256i c = _mm256_loadu_si256(from + 2), d = _mm256_loadu_si256(from + 3);
    _mm256_stream_si256(to, a);
    _mm256_stream_si256(to + 1, b);
    _mm256_stream_si256(to + 2, c);
    _mm256_stream_si256(to + 3, d);
  }
  _mm_sfence();
  std::memcpy(target, source, bytes);
}

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
#else
void copy_streamed(char *target, const char *source, uint64_t bytes) {
  std::memcpy(target, source, bytes);
}
bool has_avx2() { return false; }
#endif

void fill_bytes(char *target, uint64_t bytes, uint32_t value, unsigned width) {
  if (width == 1)
    std::memset(target, static_cast<int>(value), bytes);
  else if (width == 2)
    std::fill_n(reinterpret_cast<uint16_t *>(target), bytes / 2, static_cast<uint16_t>(value));
  else
    std::fill_n(reinterpret_cast<uint32_t *>(target), bytes / 4, value);
}

struct Move {
  char *target;
  const char *source;  // nullptr: fill
  uint64_t bytes;
  bool streamed;
  const FillOp *fill;
  const KernelEntry *kernel;
  const uint64_t *values;
};

void move_plain(const void *argument) {
  const Move &move = *static_cast<const Move *>(argument);
  if (move.kernel)
    move.kernel->body(move.values);
  else if (move.fill)
    fill_bytes(move.target, move.bytes, move.fill->value, move.fill->width);
  else if (move.streamed)
    copy_streamed(move.target, move.source, move.bytes);
  else
    std::memmove(move.target, move.source, move.bytes);
}

// False when a byte could not be read or written.
bool move_guarded(const Move &move) {
  return run_guarded({move.source, move.target, move.bytes}, move_plain, &move);
}

enum class Direction { to_device, from_device, inside };

Direction direction_of(const CopyOp &copy) {
  if (copy.source_side != Side::device && copy.target_side == Side::device)
    return Direction::to_device;
  if (copy.source_side == Side::device && copy.target_side != Side::device)
    return Direction::from_device;
  return Direction::inside;
}

// A copy engine for as long as the copy runs, and the link's time that its bytes take.
class Transfer {
 public:
  Transfer(Device &device, Direction direction, uint64_t bytes) : device_(device) {
    if (direction == Direction::inside) return;
    engaged_ = true;
    std::unique_lock lock(device.engine_mutex);
    while (device.engines_busy >= std::max<uint64_t>(1, settings.copy_engines))
      device.engine_free.wait(lock);
    ++device.engines_busy;
    lock.unlock();
    const uint64_t bandwidth =
        direction == Direction::to_device ? settings.h2d_bandwidth : settings.d2h_bandwidth;
    if (!bandwidth) return;
    const bool shared = settings.copy_engines <= 1;
    Link &link = device.links[shared || direction == Direction::to_device ? 0 : 1];
    const double seconds = static_cast<double>(bytes) / static_cast<double>(bandwidth);
    std::lock_guard link_lock(link.mutex);
    link.free_at_ns = std::max(link.free_at_ns, now_ns()) + static_cast<uint64_t>(seconds * 1e9);
    until_ns_ = link.free_at_ns;
  }
  ~Transfer() {
    if (!engaged_) return;
    if (until_ns_) sleep_until_ns(until_ns_);
    std::lock_guard lock(device_.engine_mutex);
    --device_.engines_busy;
    device_.engine_free.notify_one();
  }
  Transfer(const Transfer &) = delete;
  Transfer &operator=(const Transfer &) = delete;

 private:
  Device &device_;
  bool engaged_ = false;
  uint64_t until_ns_ = 0;
};

bool side_pieces(Side side, uint64_t address, uint64_t bytes, int device, bool write,
                 std::vector<Piece> &pieces) {
  pieces.clear();
  if (side == Side::device) return locate(address, bytes, device, write, pieces);
  pieces.push_back({reinterpret_cast<char *>(address), bytes});
  return true;
}

bool move_pieces(std::vector<Piece> &targets, std::vector<Piece> &sources, bool streamed) {
  size_t t = 0, s = 0;
  while (t < targets.size() && s < sources.size()) {
    const uint64_t bytes = std::min(targets[t].bytes, sources[s].bytes);
    const bool large = streamed && bytes >= kStreamedStoreBytes && has_avx2();
    const Move move{targets[t].base, sources[s].base, bytes, large, nullptr, nullptr, nullptr};
    if (!move_guarded(move)) return false;
    targets[t].base += bytes, sources[s].base += bytes;
    if ((targets[t].bytes -= bytes) == 0) ++t;
    if ((sources[s].bytes -= bytes) == 0) ++s;
  }
  return true;
}

void check_sample(const CopyOp &copy) {
  if (!copy.sampled) return;
  if (sample_bytes(reinterpret_cast<const void *>(copy.source), copy.bytes) == copy.sample) return;
  report_misuse("the host source [0x%llx, +0x%llx) of a queued copy was overwritten before it ran",
                static_cast<unsigned long long>(copy.source),
                static_cast<unsigned long long>(copy.bytes));
}

bool run_copy(Stream &stream, const CopyOp &copy) {
  std::vector<Piece> &targets = stream.targets, &sources = stream.sources;
  Device &device = *stream.context->device;
  const int asked = copy.any_device ? -1 : device.ordinal;
  const uint64_t source = copy.staged ? reinterpret_cast<uint64_t>(copy.staged) : copy.source;
  if (!side_pieces(copy.target_side, copy.target, copy.bytes, asked, true, targets)) return false;
  if (!side_pieces(copy.source_side, source, copy.bytes, asked, false, sources)) return false;
  Transfer transfer(device, direction_of(copy), copy.bytes);
  if (!copy.staged) check_sample(copy);
  return move_pieces(targets, sources, copy.target_side == Side::device);
}

bool run_fill(Stream &stream, const FillOp &fill) {
  std::vector<Piece> &targets = stream.targets;
  targets.clear();
  if (!locate(fill.target, fill.bytes, stream.context->device->ordinal, true, targets))
    return false;
  for (const Piece &piece : targets)
    if (!move_guarded({piece.base, nullptr, piece.bytes, false, &fill, nullptr, nullptr}))
      return false;
  return true;
}

// A kernel's pointer argument as one contiguous host range: the memory itself, or, when it spans
// several physical handles, a copy that is scattered back afterwards.
struct Window {
  std::vector<Piece> pieces;
  std::vector<char> gathered;
  bool write = false;

  char *open() {
    if (pieces.size() == 1) return pieces[0].base;
    for (const Piece &piece : pieces)
      gathered.insert(gathered.end(), piece.base, piece.base + piece.bytes);
    return gathered.data();
  }
  void close() {
    if (pieces.size() <= 1 || !write) return;
    const char *from = gathered.data();
    for (const Piece &piece : pieces) {
      std::memcpy(piece.base, from, piece.bytes);
      from += piece.bytes;
    }
  }
};

bool run_kernel(Stream &stream, const KernelOp &op) {
  const uint64_t begin = now_ns();
  const KernelEntry &kernel = *op.kernel;
  uint64_t values[kMaxKernelArguments];
  Window windows[kMaxKernelArguments];
  for (unsigned i = 0; i < kernel.argument_count; ++i) {
    const KernelArgument &argument = kernel.arguments[i];
    values[i] = op.arguments[i];
    if (argument.use == ArgumentUse::scalar) continue;
    windows[i].write = argument.use != ArgumentUse::read;
    const uint64_t bytes = argument.bytes(op.arguments);
    if (!bytes) continue;
    if (!locate(op.arguments[i], bytes, stream.context->device->ordinal, windows[i].write,
                windows[i].pieces))
      return false;
    values[i] = reinterpret_cast<uint64_t>(windows[i].open());
  }
  if (!move_guarded({nullptr, nullptr, 0, false, nullptr, &kernel, values})) return false;
  for (Window &window : windows) window.close();
  if (settings.kernel_time_ns) sleep_until_ns(begin + settings.kernel_time_ns);
  return true;
}

void run_host(Stream &stream, const Op &op) {
  const auto error = static_cast<CUresult>(stream.context->sticky.load());
  inside_host_function = true;
  if (op.kind == OpKind::callback)
    op.host.callback(op.host.handle, error, op.host.user);
  else if (error == CUDA_SUCCESS)
    op.host.function(op.host.user);
  inside_host_function = false;
}

void poison_context(Stream &stream) {
  int none = 0;
  stream.context->sticky.compare_exchange_strong(none, CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace

bool in_host_function() { return inside_host_function; }

uint64_t now_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::nanoseconds(now).count());
}

void sleep_until_ns(uint64_t time_ns) {
  using Clock = std::chrono::steady_clock;
  std::this_thread::sleep_until(Clock::time_point(std::chrono::duration_cast<Clock::duration>(
      std::chrono::nanoseconds(static_cast<int64_t>(time_ns)))));
}

namespace {

struct Sample {
  const char *from;
  uint64_t bytes;
  uint64_t *hash;
};

// All of a small range; of a large one its ends and words spread over it.
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) void take_sample(
    const void *argument) {
  constexpr uint64_t kWhole = 512, kSamples = 48;
  const Sample &sample = *static_cast<const Sample *>(argument);
  const uint64_t bytes = sample.bytes;
  const uint64_t step = bytes <= kWhole ? 8 : (bytes - 8) / kSamples;
  uint64_t hash = 0x9E3779B97F4A7C15u ^ bytes;
  for (uint64_t at = 0; at + 8 <= bytes; at += step) {
    uint64_t word;
    __builtin_memcpy(&word, sample.from + at, 8);
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
  }
  for (uint64_t at = bytes & ~uint64_t{7}; at < bytes; ++at)
    hash = (hash ^ static_cast<unsigned char>(sample.from[at])) * 0xFF51AFD7ED558CCDu;
  *sample.hash = hash;
}

}  // namespace

uint64_t sample_bytes(const void *data, uint64_t bytes) {
  uint64_t hash = 0;
  const Sample sample{static_cast<const char *>(data), bytes, &hash};
  return run_guarded({data, nullptr, bytes}, take_sample, &sample) ? hash : 0;
}

void execute(Stream &stream, Op &op) {
  if (op.kind == OpKind::record) return complete_record(op.record);
  if (op.kind == OpKind::host_function || op.kind == OpKind::callback) return run_host(stream, op);
  if (op.kind == OpKind::release) return release_allocation(op.release.address);
  if (stream.context->sticky.load() != 0) return;
  bool good = true;
  switch (op.kind) {
    case OpKind::copy:
      good = run_copy(stream, op.copy);
      break;
    case OpKind::fill:
      good = run_fill(stream, op.fill);
      break;
    case OpKind::kernel:
      good = run_kernel(stream, op.kernel);
      break;
    default:
      break;
  }
  if (!good) poison_context(stream);
}

void discard(Op &op) {
  if (op.kind == OpKind::copy && op.copy.staged) std::free(op.copy.staged);
  delete op.more;
  op.more = nullptr;
}

}  // namespace emulated

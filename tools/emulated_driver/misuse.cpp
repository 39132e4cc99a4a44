// The misuse detector: what a real driver lets pass until it hurts. Threads: any. The texts have
// their own mutex; queued work is looked at under each stream's mutex, one at a time.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels.h"
#include "state.h"

namespace emulated {

std::atomic<uint64_t> pending_host_writers{0};

namespace {

constexpr size_t kKeptTexts = 256;

std::mutex mutex;
std::vector<std::string> &texts = *new std::vector<std::string>;
uint64_t count = 0;

bool is_new(const std::string &text) {
  for (const std::string &seen : texts)
    if (seen == text) return false;
  return true;
}

struct Range {
  uint64_t address;
  uint64_t bytes;
  bool write;
};

bool overlap(const Range &range, uint64_t address, uint64_t bytes) {
  return range.bytes && bytes && range.address < address + bytes &&
         address < range.address + range.bytes;
}

// The memory that an operation touches when it runs; returns how many ranges there are.
unsigned op_ranges(const Op &op, Range (&out)[kMaxKernelArguments]) {
  unsigned n = 0;
  switch (op.kind) {
    case OpKind::copy:
      out[n++] = {op.copy.target, op.copy.bytes, true};
      if (!op.copy.staged) out[n++] = {op.copy.source, op.copy.bytes, false};
      break;
    case OpKind::fill:
      out[n++] = {op.fill.target, op.fill.bytes, true};
      break;
    case OpKind::kernel:
      for (unsigned i = 0; i < op.kernel.kernel->argument_count; ++i) {
        const KernelArgument &argument = op.kernel.kernel->arguments[i];
        if (argument.use == ArgumentUse::scalar) continue;
        out[n++] = {op.kernel.arguments[i], argument.bytes(op.kernel.arguments),
                    argument.use != ArgumentUse::read};
      }
      break;
    default:
      break;
  }
  return n;
}

const char *op_name(OpKind kind) {
  switch (kind) {
    case OpKind::copy:
      return "a copy";
    case OpKind::fill:
      return "a memset";
    case OpKind::kernel:
      return "a kernel";
    default:
      return "an operation";
  }
}

// Calls visit(op, stream) for each queued operation until it answers true.
template <class Visit>
bool for_each_pending(Visit visit) {
  for (size_t i = 0; i < state.streams.size(); ++i) {
    Stream &stream = state.streams[i];
    if (stream.submitted == stream.completed) continue;
    std::lock_guard lock(stream.mutex);
    for (size_t k = 0; k < stream.queue.size(); ++k)
      if (visit(stream.queue.at(k), stream)) return true;
  }
  return false;
}

}  // namespace

bool misuse_on() { return settings.misuse != MisuseMode::off; }

void report_misuse(const char *format, ...) {
  if (!misuse_on()) return;
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::lock_guard lock(mutex);
  ++count;
  if (is_new(text) || settings.misuse == MisuseMode::abort) {
    std::fprintf(stderr, "[sluice emulated driver] misuse: %s\n", text);
    std::fflush(stderr);
  }
  if (settings.misuse == MisuseMode::abort) std::abort();
  if (texts.size() < kKeptTexts) texts.emplace_back(text);
}

void report_pending_use(uint64_t address, uint64_t bytes, const char *what) {
  if (!misuse_on()) return;
  char text[256] = "";
  for_each_pending([&](const Op &op, const Stream &stream) {
    Range ranges[kMaxKernelArguments];
    const unsigned n = op_ranges(op, ranges);
    for (unsigned i = 0; i < n; ++i) {
      if (!overlap(ranges[i], address, bytes)) continue;
      std::snprintf(text, sizeof text,
                    "[0x%llx, +0x%llx) is %s while %s on stream %llu still has to %s it",
                    static_cast<unsigned long long>(address),
                    static_cast<unsigned long long>(bytes), what, op_name(op.kind),
                    static_cast<unsigned long long>(stream.id), ranges[i].write ? "write" : "read");
      return true;
    }
    return false;
  });
  if (*text) report_misuse("%s", text);
}

bool writes_host(const Op &op) {
  switch (op.kind) {
    case OpKind::copy:
      return op.copy.target_side != Side::device;
    case OpKind::host_function:
    case OpKind::callback:
    case OpKind::kernel:
    case OpKind::fill:
      return true;
    default:
      return false;
  }
}

bool pending_host_writer(uint64_t address, uint64_t bytes) {
  if (pending_host_writers.load(std::memory_order_relaxed) == 0) return false;
  return for_each_pending([&](const Op &op, const Stream &) {
    if (op.kind == OpKind::host_function || op.kind == OpKind::callback) return true;
    Range ranges[kMaxKernelArguments];
    const unsigned n = op_ranges(op, ranges);
    for (unsigned i = 0; i < n; ++i)
      if (ranges[i].write && overlap(ranges[i], address, bytes)) return true;
    return false;
  });
}

namespace {

struct Leaks {
  std::string text;
  void add(const char *what, uint64_t n) {
    if (!n) return;
    if (!text.empty()) text += ", ";
    text += std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  }
};

bool belongs(const Context *owner, const Context *context) { return !context || owner == context; }

void count_memory(Context *context, bool others, Leaks &leaks) {
  std::shared_lock lock(state.memory_mutex);
  uint64_t mappings = 0, handles = 0, registered = 0, allocated = 0, device_memory = 0;
  for (const auto &[address, mapping] : state.mappings) {
    if (mapping.physical)
      mappings += !others || (context && mapping.device == context->device->ordinal);
    else
      device_memory += belongs(mapping.context, context);
  }
  for (const auto &[handle, physical] : state.physical)
    handles += !others || (context && physical->device == context->device->ordinal);
  for (const auto &[address, registration] : state.registrations)
    if (belongs(registration.context, context)) ++(registration.allocated ? allocated : registered);
  if (!others) leaks.add("address reservation", state.reservations.size());
  leaks.add("physical handle", handles);
  leaks.add("mapping", mappings);
  leaks.add("device allocation", device_memory);
  leaks.add("host registration", registered);
  leaks.add("host allocation", allocated);
}

bool other_context_live(const Context *context) {
  for (size_t i = 0; i < state.contexts.size(); ++i)
    if (state.contexts[i].live && &state.contexts[i] != context) return true;
  return false;
}

}  // namespace

void report_leaks(Context *context, const char *when) {
  if (!misuse_on()) return;
  Leaks leaks;
  count_memory(context, context && other_context_live(context), leaks);
  uint64_t streams = 0, events = 0;
  for (size_t i = 0; i < state.streams.size(); ++i) {
    const Stream &stream = state.streams[i];
    streams +=
        stream.live && stream.kind == StreamKind::created && belongs(stream.context, context);
  }
  for (size_t i = 0; i < state.events.size(); ++i)
    events += state.events[i].live && belongs(state.events[i].context, context);
  leaks.add("stream", streams);
  leaks.add("event", events);
  if (!leaks.text.empty()) report_misuse("leaked at %s: %s", when, leaks.text.c_str());
}

uint64_t misuse_count() {
  std::lock_guard lock(mutex);
  return count;
}

size_t misuse_text(uint64_t i, char *text, size_t capacity) {
  std::lock_guard lock(mutex);
  if (i >= texts.size()) {
    if (capacity) *text = 0;
    return 0;
  }
  if (capacity) {
    std::strncpy(text, texts[i].c_str(), capacity - 1);
    text[capacity - 1] = 0;
  }
  return texts[i].size();
}

void clear_misuse() {
  std::lock_guard lock(mutex);
  texts.clear();
  count = 0;
}

}  // namespace emulated

// The exported symbols, generated from entry_table.inc, and the gate that each of them passes.
// An entry point is a C function whose assembler name is the row's symbol.
#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>

#include "control.h"
#include "gate.h"
#include "state.h"

namespace emulated {

// Names and numbers of parameters for a list of types.
#define EMU_CAT_(a, b) a##b
#define EMU_CAT(a, b) EMU_CAT_(a, b)
#define EMU_COUNT_(a, b, c, d, e, f, g, h, i, j, k, n, ...) n
#define EMU_COUNT(...) EMU_COUNT_(__VA_ARGS__ __VA_OPT__(, ) 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, )
#define EMU_P0()
#define EMU_P1(a) a p1
#define EMU_P2(a, b) EMU_P1(a), b p2
#define EMU_P3(a, b, c) EMU_P2(a, b), c p3
#define EMU_P4(a, b, c, d) EMU_P3(a, b, c), d p4
#define EMU_P5(a, b, c, d, e) EMU_P4(a, b, c, d), e p5
#define EMU_P6(a, b, c, d, e, f) EMU_P5(a, b, c, d, e), f p6
#define EMU_P7(a, b, c, d, e, f, g) EMU_P6(a, b, c, d, e, f), g p7
#define EMU_P8(a, b, c, d, e, f, g, h) EMU_P7(a, b, c, d, e, f, g), h p8
#define EMU_P9(a, b, c, d, e, f, g, h, i) EMU_P8(a, b, c, d, e, f, g, h), i p9
#define EMU_P11(a, b, c, d, e, f, g, h, i, j, k) EMU_P9(a, b, c, d, e, f, g, h, i), j p10, k p11
#define EMU_A0
#define EMU_A1 p1
#define EMU_A2 EMU_A1, p2
#define EMU_A3 EMU_A2, p3
#define EMU_A4 EMU_A3, p4
#define EMU_A5 EMU_A4, p5
#define EMU_A6 EMU_A5, p6
#define EMU_A7 EMU_A6, p7
#define EMU_A8 EMU_A7, p8
#define EMU_A9 EMU_A8, p9
#define EMU_A11 EMU_A9, p10, p11
#define EMU_PARAMETERS(...) EMU_CAT(EMU_P, EMU_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define EMU_ARGUMENTS(...) EMU_CAT(EMU_A, EMU_COUNT(__VA_ARGS__))

// 1: the implementations' declarations.
#define EMU_ROW(symbol, name, since, traits, implementation, ...) \
  CUresult implementation(__VA_ARGS__);
#define EMU_STREAM_ROW EMU_ROW
#define EMU_SYNC_ROW EMU_ROW
#include "entry_table.inc"
#undef EMU_ROW
#undef EMU_STREAM_ROW
#undef EMU_SYNC_ROW

// 2: each row's number.
enum RowNumber : unsigned {
#define EMU_ROW(...) EMU_CAT(kRow, __LINE__),
#define EMU_STREAM_ROW(...) EMU_CAT(kRow, __LINE__), EMU_CAT(kThreadRow, __LINE__),
#define EMU_SYNC_ROW EMU_STREAM_ROW
#include "entry_table.inc"
#undef EMU_ROW
#undef EMU_STREAM_ROW
#undef EMU_SYNC_ROW
  kRowCount
};

// Running out of the process's own memory is an answer, as a driver gives it.
template <typename Call>
CUresult answer_of(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::system_error &) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

// 3: the exported functions.
#define EMU_EXPORT(function, number, symbol, implementation, ...)                                \
  extern "C" SLUICE_EMULATED_API CUresult function(EMU_PARAMETERS(__VA_ARGS__)) __asm__(symbol); \
  extern "C" CUresult function(EMU_PARAMETERS(__VA_ARGS__)) {                                    \
    if (const Verdict verdict = enter(number)) return *verdict;                                  \
    return answer_of([&] { return implementation(EMU_ARGUMENTS(__VA_ARGS__)); });                \
  }
#define EMU_ROW(symbol, name, since, traits, implementation, ...)                 \
  EMU_EXPORT(EMU_CAT(emulated_entry_, __LINE__), EMU_CAT(kRow, __LINE__), symbol, \
             implementation __VA_OPT__(, ) __VA_ARGS__)
#define EMU_THREAD_ROW(symbol, implementation, ...)                                            \
  EMU_EXPORT(EMU_CAT(emulated_thread_entry_, __LINE__), EMU_CAT(kThreadRow, __LINE__), symbol, \
             implementation __VA_OPT__(, ) __VA_ARGS__)
#define EMU_STREAM_ROW(symbol, name, since, traits, implementation, ...) \
  EMU_ROW(symbol, name, since, traits, implementation, __VA_ARGS__)      \
  EMU_THREAD_ROW(symbol "_ptsz", implementation, __VA_ARGS__)
#define EMU_SYNC_ROW(symbol, name, since, traits, implementation, ...) \
  EMU_ROW(symbol, name, since, traits, implementation, __VA_ARGS__)    \
  EMU_THREAD_ROW(symbol "_ptds", implementation, __VA_ARGS__)
#include "entry_table.inc"
#undef EMU_ROW
#undef EMU_STREAM_ROW
#undef EMU_SYNC_ROW

// 4: the table.
#define EMU_ENTRY(symbol, name, since, traits, function) \
  {symbol, name, since, traits, reinterpret_cast<void *>(&function)},
#define EMU_ROW(symbol, name, since, traits, ...) \
  EMU_ENTRY(symbol, name, since, (traits), EMU_CAT(emulated_entry_, __LINE__))
#define EMU_THREAD_ENTRY(symbol, name, since, traits)                             \
  EMU_ENTRY(symbol, name, (since) < 7000 ? 7000 : (since), (traits) | kPerThread, \
            EMU_CAT(emulated_thread_entry_, __LINE__))
#define EMU_STREAM_ROW(symbol, name, since, traits, ...) \
  EMU_ROW(symbol, name, since, traits) EMU_THREAD_ENTRY(symbol "_ptsz", name, since, traits)
#define EMU_SYNC_ROW(symbol, name, since, traits, ...) \
  EMU_ROW(symbol, name, since, traits) EMU_THREAD_ENTRY(symbol "_ptds", name, since, traits)

const Row rows[] = {
#include "entry_table.inc"
};
const unsigned row_count = kRowCount;
RowState row_states[kRowCount];

namespace {

std::atomic<bool> any_absent{false};

// Is name one of the list's?
bool names(const char *list, const char *name) {
  const size_t length = std::strlen(name);
  for (const char *at = list; *at;) {
    const size_t token = std::strcspn(at, ",");
    if (token == length && !std::memcmp(at, name, length)) return true;
    at += token + (at[token] == ',');
  }
  return false;
}

void spend(uint64_t latency_ns) {
  const uint64_t until = now_ns() + latency_ns;
  if (latency_ns > 100000) return sleep_until_ns(until);
  while (now_ns() < until) {
  }
}

bool is_absent(const Row &row, const RowState &row_state) {
  if (row.since > settings.version) return true;
  return any_absent.load(std::memory_order_relaxed) && row_state.absent;
}

Verdict check_context(const Row &row) {
  if (!(row.traits & (kContext | kSticky))) return {};
  if ((row.traits & kContext) && !current_context()) {
    report_misuse("%s is called with no current context", row.name);
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const CUresult sticky = current_sticky();
  return sticky == CUDA_SUCCESS ? Verdict{} : sticky;
}

}  // namespace

Verdict enter(unsigned number) {
  load_settings_once();
  const Row &row = rows[number];
  RowState &row_state = row_states[number];
  row_state.calls.fetch_add(1, std::memory_order_relaxed);
  use_per_thread_streams((row.traits & kPerThread) != 0);
  if (const uint64_t latency = settings.call_latency_ns) spend(latency);
  if (faults_armed.load(std::memory_order_relaxed))
    if (const Verdict fault = injected_fault(row.name)) return fault;
  if (is_absent(row, row_state)) return CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
  if (row.traits == kAnywhere) return {};
  if (in_host_function()) {
    report_misuse("%s is called from a host function", row.name);
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (!state.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if ((row.traits & kVmm) && feature_absent(kFeatureVmm)) return CUDA_ERROR_NOT_SUPPORTED;
  if (const Verdict verdict = check_context(row)) return verdict;
  if ((row.traits & kUnsafe) && active_captures.load(std::memory_order_relaxed))
    if (const CUresult answer = check_capture_safety()) return answer;
  return {};
}

void set_absent_entry_points(const std::string &comma_separated) {
  bool any = false;
  for (unsigned i = 0; i < row_count; ++i) {
    const bool absent = names(comma_separated.c_str(), rows[i].name);
    row_states[i].absent = absent;
    any = any || absent;
  }
  any_absent = any;
}

bool is_entry_point(const std::string &name) {
  return std::any_of(rows, rows + row_count, [&](const Row &row) { return name == row.name; });
}

bool entry_point_absent(const Row &row) { return row_states[&row - rows].absent; }

uint64_t calls_of(const char *name) {
  uint64_t calls = 0;
  for (unsigned i = 0; i < row_count; ++i)
    if (!name || !std::strcmp(rows[i].name, name)) calls += row_states[i].calls;
  return calls;
}

void clear_calls() {
  for (unsigned i = 0; i < row_count; ++i) row_states[i].calls = 0;
}

}  // namespace emulated

// The one gate that every entry point passes: counting, injected faults, absence, latency, cuInit,
// current context, sticky errors, capture safety. Threads: any; lock-free unless faults are armed.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "cuda_types.h"

namespace emulated {

enum Trait : unsigned {
  kAnywhere = 0,    // works before cuInit
  kInit = 1,        // needs cuInit
  kContext = 2,     // needs cuInit and a live current context
  kSticky = 4,      // needs no context, but reports the current one's sticky error
  kUnsafe = 8,      // may not be called while a capture forbids it
  kPerThread = 16,  // the NULL stream means the calling thread's
  kVmm = 32,        // absent with ABSENT=vmm
};

struct Row {
  const char *symbol;
  const char *name;
  int since;
  unsigned traits;
  void *function;
};

struct RowState {
  std::atomic<uint64_t> calls{0};
  std::atomic<bool> absent{false};
};

extern const Row rows[];
extern const unsigned row_count;
extern RowState row_states[];

// The gate's answer: nothing when the call may go on, else what the call returns.
using Verdict = std::optional<CUresult>;

[[nodiscard]] Verdict enter(unsigned row);

// faults.cpp
bool set_faults(const char *list);
bool arm_fault(const char *fault);
void disarm_faults();
uint64_t faults_fired();
void clear_faults_fired();
extern std::atomic<bool> faults_armed;
[[nodiscard]] Verdict injected_fault(const char *name);

void set_absent_entry_points(const std::string &comma_separated);
bool is_entry_point(const std::string &name);
bool entry_point_absent(const Row &row);
uint64_t calls_of(const char *name);
void clear_calls();

}  // namespace emulated

// The control functions: see control.h. They pass no gate.
#include "control.h"

#include <mutex>

#include "gate.h"
#include "process.h"
#include "state.h"

using namespace emulated;

namespace {

// The settings must have been read before one is set, or a later first call would undo it.
void load_first() { load_settings_once(); }

void count_streams(sluice_emulated_live &out) {
  for (size_t i = 0; i < state.streams.size(); ++i)
    out.streams += state.streams[i].live && state.streams[i].kind == StreamKind::created;
  for (size_t i = 0; i < state.events.size(); ++i) out.events += state.events[i].live;
  for (size_t i = 0; i < state.contexts.size(); ++i) out.contexts += state.contexts[i].live;
}

void count_memory(sluice_emulated_live &out) {
  std::shared_lock lock(state.memory_mutex);
  out.reservations = state.reservations.size();
  out.reserved_bytes = state.reserved_bytes;
  out.physical_handles = state.physical.size();
  for (const auto &device : state.devices) out.physical_bytes += device->used_bytes;
  for (const auto &[address, mapping] : state.mappings)
    ++(mapping.physical ? out.mappings : out.device_allocations);
  for (const auto &[address, registration] : state.registrations) {
    ++(registration.allocated ? out.host_allocations : out.registrations);
    (registration.allocated ? out.host_allocated_bytes : out.registered_bytes) +=
        registration.bytes;
  }
  out.peak_physical_bytes = state.peak_physical_bytes;
  out.peak_pinned_bytes = state.peak_pinned_bytes;
}

bool anything_live() {
  sluice_emulated_live live;
  sluice_emulated_get_live(&live);
  return live.contexts || live.reservations || live.physical_handles || live.registrations ||
         live.host_allocations || live.modules || live.graphs || live.pending_operations;
}

// Runs when the process ends. Looks, and touches nothing: streams' threads may still run.
__attribute__((destructor)) void at_exit() {
  // A forked child has its parent's objects.
  if (!state.initialized || state.process != process_number()) return;
  if (settings.leaks == LeakReport::all && kThreadsRunUntilExit)
    report_leaks(nullptr, "process exit");
}

}  // namespace

int sluice_emulated_set(const char *name, const char *value) {
  load_first();
  return name && apply_setting(name, value) ? 0 : -1;
}

int sluice_emulated_reset(void) {
  load_first();
  if (anything_live()) return -1;
  std::lock_guard lock(state.contexts_mutex);
  drop_devices();
  forget_thread_contexts();
  load_settings();
  clear_calls();
  clear_misuse();
  clear_faults_fired();
  state.peak_physical_bytes = 0;
  state.peak_pinned_bytes = 0;
  return 0;
}

uint64_t sluice_emulated_calls(const char *name) {
  load_settings_once();
  return calls_of(name);
}

void sluice_emulated_get_live(sluice_emulated_live *out) {
  *out = {};
  count_streams(*out);
  count_memory(*out);
  out->modules = live_modules();
  out->graphs = live_graphs();
  out->pending_operations = pending_operations();
}

uint64_t sluice_emulated_misuse_count(void) { return misuse_count(); }

size_t sluice_emulated_misuse_text(uint64_t i, char *text, size_t capacity) {
  return misuse_text(i, text, capacity);
}

void sluice_emulated_misuse_clear(void) { clear_misuse(); }

void *sluice_emulated_host_alias(uint64_t address, size_t bytes) {
  return host_alias(address, bytes);
}

int sluice_emulated_arm_fault(const char *fault) {
  load_first();
  return arm_fault(fault) ? 0 : -1;
}

void sluice_emulated_disarm_faults(void) {
  load_first();
  disarm_faults();
}

uint64_t sluice_emulated_faults_fired(void) { return faults_fired(); }

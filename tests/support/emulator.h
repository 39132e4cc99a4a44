// The emulated driver's control functions, from the same library that sluice opens by path.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

#include "runtime/os.h"
#include "tools/emulated_driver/control.h"

namespace support {

inline void *emulator_symbol(const char *name) {
  static std::string message;
  static void *library = sluice::library_open(SLUICE_EMULATED_DRIVER_PATH, &message);
  void *symbol = library ? sluice::library_symbol(library, name) : nullptr;
  if (!symbol) {
    std::fprintf(stderr, "emulated driver: %s lacks %s\n", message.c_str(), name);
    std::abort();
  }
  return symbol;
}

#define SLUICE_CONTROL(name)                                    \
  inline auto *name() {                                         \
    return reinterpret_cast<decltype(&sluice_emulated_##name)>( \
        emulator_symbol("sluice_emulated_" #name));             \
  }
namespace emulator {
SLUICE_CONTROL(set)
SLUICE_CONTROL(reset)
SLUICE_CONTROL(calls)
SLUICE_CONTROL(get_live)
SLUICE_CONTROL(misuse_count)
SLUICE_CONTROL(misuse_text)
SLUICE_CONTROL(host_alias)
SLUICE_CONTROL(arm_fault)
SLUICE_CONTROL(disarm_faults)
SLUICE_CONTROL(faults_fired)
}  // namespace emulator
#undef SLUICE_CONTROL

// Counters, peaks and settings of a fresh process; misuse is recorded. Nothing is live.
inline bool fresh_driver(const char *memory = nullptr, const char *devices = nullptr) {
  if (emulator::reset()() != 0) return false;
  if (devices) emulator::set()("DEVICES", devices);
  if (memory) emulator::set()("MEMORY", memory);
  emulator::set()("MISUSE", "log");
  return reinterpret_cast<int (*)(unsigned)>(emulator_symbol("cuInit"))(0) == 0;
}

inline sluice_emulated_live live() {
  sluice_emulated_live now{};
  emulator::get_live()(&now);
  return now;
}

// "" when everything that a program can hold has been given back.
inline std::string leaks() {
  const sluice_emulated_live now = live();
  std::string text;
  const auto add = [&](const char *what, uint64_t count) {
    if (count != 0) text += std::string(what) + " " + std::to_string(count) + " ";
  };
  add("contexts", now.contexts);
  add("reservations", now.reservations);
  add("handles", now.physical_handles);
  add("mappings", now.mappings);
  add("streams", now.streams);
  add("events", now.events);
  add("registrations", now.registrations);
  add("modules", now.modules);
  return text;
}

inline std::string first_misuse() {
  char text[512] = "";
  if (emulator::misuse_count()() != 0) emulator::misuse_text()(0, text, sizeof text);
  return text;
}

}  // namespace support

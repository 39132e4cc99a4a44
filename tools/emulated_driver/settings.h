// What can be set: read once from the environment, then by name through control.h.
// Every value is an atomic or is behind the mutex of faults.cpp, so that it may change at run time.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace emulated {

enum class MisuseMode : int { off, log, abort };
enum class LeakReport : int { none, release, all };

enum Feature : unsigned {
  kFeatureVmm = 1,
  kFeatureReadOnlyRegister = 2,
  kFeatureHostVmm = 4,
};

struct Settings {
  std::atomic<int> version{13000};
  std::atomic<int> devices{1};
  std::atomic<uint64_t> memory_bytes{0};
  std::atomic<uint64_t> granularity_bytes{0};
  std::atomic<uint64_t> h2d_bandwidth{0};
  std::atomic<uint64_t> d2h_bandwidth{0};
  std::atomic<uint64_t> copy_engines{2};
  std::atomic<uint64_t> kernel_time_ns{0};
  std::atomic<uint64_t> call_latency_ns{0};
  std::atomic<uint64_t> pinned_limit_bytes{0};
  std::atomic<uint64_t> set_access_not_ready{0};
  std::atomic<unsigned> absent_features{0};
  std::atomic<MisuseMode> misuse{MisuseMode::log};
  std::atomic<LeakReport> leaks{LeakReport::all};
  std::atomic<bool> host_access{false};
  std::atomic<uint64_t> pretouch_bytes{0};
  std::atomic<int> poison{-1};  // -1: decided by misuse and pretouch
};

extern Settings settings;

// Reads the environment; every setting not named there gets its default.
void load_settings();
// The environment is read when the library is first used.
void load_settings_once();
bool apply_setting(const char *name, const char *value);
std::string shared_name();
bool feature_absent(Feature feature);
bool poison_wanted();

// "16GiB", "512M", "4096". False when the text isn't a size.
bool parse_size(const char *text, uint64_t &out);

}  // namespace emulated

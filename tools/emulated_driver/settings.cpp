// Settings by name. Threads: any. A setter per name; what needs more than a number (faults, absent
// entry points) is handed to its owner.
#include "settings.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

#include "gate.h"
#include "pages.h"
#include "process.h"

namespace emulated {

Settings settings;

namespace {

std::mutex shared_name_mutex;
std::string &shared_name_value = *new std::string;  // outlives exit handlers

constexpr uint64_t kDefaultMemoryBytes = 16ull << 30;
constexpr uint64_t kDefaultGranularityBytes = 2ull << 20;

bool set_number(std::atomic<uint64_t> &target, const char *text, uint64_t fallback) {
  uint64_t value = fallback;
  if (*text && !parse_size(text, value)) return false;
  target = value;
  return true;
}

bool set_version(const char *text) {
  uint64_t value = 13000;
  if (*text && (!parse_size(text, value) || value < 10000 || value > 99990)) return false;
  if (value % 10 != 0 || value % 1000 > 90) return false;  // 1000 * major + 10 * minor
  settings.version = static_cast<int>(value);
  return true;
}

bool set_devices(const char *text) {
  uint64_t value = 1;
  if (*text && (!parse_size(text, value) || value > 8)) return false;
  settings.devices = static_cast<int>(value);
  return true;
}

bool set_granularity(const char *text) {
  uint64_t value = kDefaultGranularityBytes;
  if (*text && !parse_size(text, value)) return false;
  if (value < (64u << 10) || (value & (value - 1)) != 0) return false;
  settings.granularity_bytes = value;
  return true;
}

bool set_misuse(const char *text) {
  if (!*text || !std::strcmp(text, "log"))
    settings.misuse = MisuseMode::log;
  else if (!std::strcmp(text, "abort"))
    settings.misuse = MisuseMode::abort;
  else if (!std::strcmp(text, "off"))
    settings.misuse = MisuseMode::off;
  else
    return false;
  return true;
}

bool set_leaks(const char *text) {
  if (!*text || !std::strcmp(text, "all"))
    settings.leaks = LeakReport::all;
  else if (!std::strcmp(text, "release"))
    settings.leaks = LeakReport::release;
  else if (!std::strcmp(text, "none"))
    settings.leaks = LeakReport::none;
  else
    return false;
  return true;
}

bool set_poison(const char *text) {
  uint64_t value = 0;
  if (*text && (!parse_size(text, value) || value > 1)) return false;
  settings.poison = *text ? static_cast<int>(value) : -1;
  return true;
}

bool set_host_access(const char *text) {
  uint64_t value = 0;
  if (*text && (!parse_size(text, value) || value > 1)) return false;
  if (value == 1 && !kStoresCanBeShown) return false;
  settings.host_access = value == 1;
  return true;
}

bool set_absent(const char *text) {
  unsigned features = 0;
  std::string names;
  const std::string all(text);
  for (size_t begin = 0; begin < all.size();) {
    size_t end = all.find(',', begin);
    if (end == std::string::npos) end = all.size();
    const std::string one = all.substr(begin, end - begin);
    if (one == "vmm")
      features |= kFeatureVmm;
    else if (one == "read_only_host_register")
      features |= kFeatureReadOnlyRegister;
    else if (one == "host_vmm")
      features |= kFeatureHostVmm;
    else if (one == "stream_get_id")
      names += "cuStreamGetId,";
    else if (one == "memcpy_batch")
      names += "cuMemcpyBatchAsync,";
    else if (is_entry_point(one))
      names.append(one).append(",");
    else if (!one.empty())
      return false;
    begin = end + 1;
  }
  settings.absent_features = features;
  set_absent_entry_points(names);
  return true;
}

bool set_shared(const char *text) {
  if (std::strchr(text, '/')) return false;
  std::lock_guard lock(shared_name_mutex);
  shared_name_value = text;
  return true;
}

bool set_memory(const char *text) {
  uint64_t value = kDefaultMemoryBytes;
  if (*text && (!parse_size(text, value) || value < (4u << 20))) return false;
  settings.memory_bytes = value;
  return true;
}

struct Setter {
  const char *name;
  bool (*set)(const char *text);
};

const Setter kSetters[] = {
    {"VERSION", set_version},
    {"DEVICES", set_devices},
    {"MEMORY", set_memory},
    {"GRANULARITY", set_granularity},
    {"H2D_BANDWIDTH", [](const char *t) { return set_number(settings.h2d_bandwidth, t, 0); }},
    {"D2H_BANDWIDTH", [](const char *t) { return set_number(settings.d2h_bandwidth, t, 0); }},
    {"COPY_ENGINES", [](const char *t) { return set_number(settings.copy_engines, t, 2); }},
    {"KERNEL_TIME", [](const char *t) { return set_number(settings.kernel_time_ns, t, 0); }},
    {"CALL_LATENCY", [](const char *t) { return set_number(settings.call_latency_ns, t, 0); }},
    {"PINNED_LIMIT", [](const char *t) { return set_number(settings.pinned_limit_bytes, t, 0); }},
    {"SET_ACCESS_NOT_READY",
     [](const char *t) { return set_number(settings.set_access_not_ready, t, 0); }},
    {"PRETOUCH", [](const char *t) { return set_number(settings.pretouch_bytes, t, 0); }},
    {"FAIL", [](const char *t) { return set_faults(t); }},
    {"ABSENT", set_absent},
    {"MISUSE", set_misuse},
    {"LEAKS", set_leaks},
    {"HOST_ACCESS", set_host_access},
    {"POISON", set_poison},
    {"SHARED", set_shared},
};

// A name that is written wrong would otherwise change nothing, without a word.
void report_unknown_settings() {
  constexpr std::string_view kPrefix = "SLUICE_EMULATED_";
  for (char **entry = environment_entries(); *entry; ++entry) {
    std::string_view text = *entry;
    if (!text.starts_with(kPrefix)) continue;
    text = text.substr(kPrefix.size(), text.find('=') - kPrefix.size());
    const bool known = std::any_of(std::begin(kSetters), std::end(kSetters),
                                   [&](const Setter &setter) { return setter.name == text; });
    if (!known)
      std::fprintf(stderr, "[sluice emulated driver] there is no setting SLUICE_EMULATED_%.*s\n",
                   static_cast<int>(text.size()), text.data());
  }
}

}  // namespace

bool parse_size(const char *text, uint64_t &out) {
  if (*text < '0' || *text > '9') return false;
  char *end = nullptr;
  uint64_t value = std::strtoull(text, &end, 10);
  unsigned shift = 0;
  switch (*end) {
    case 'K':
    case 'k':
      shift = 10;
      break;
    case 'M':
    case 'm':
      shift = 20;
      break;
    case 'G':
    case 'g':
      shift = 30;
      break;
    case 'T':
    case 't':
      shift = 40;
      break;
    default:
      break;
  }
  if (shift) ++end;
  if (shift && *end == 'i') ++end;
  if (*end == 'B') ++end;
  if (*end || (shift && (value >> (64 - shift)) != 0)) return false;
  out = value << shift;
  return true;
}

bool apply_setting(const char *name, const char *value) {
  for (const Setter &setter : kSetters)
    if (!std::strcmp(setter.name, name)) return setter.set(value ? value : "");
  return false;
}

void load_settings() {
  report_unknown_settings();
  for (const Setter &setter : kSetters) {
    const std::string variable = std::string("SLUICE_EMULATED_") + setter.name;
    const char *value = std::getenv(variable.c_str());
    if (!setter.set(value ? value : "")) {
      std::fprintf(stderr, "[sluice emulated driver] can't read %s=%s: default used\n",
                   variable.c_str(), value);
      setter.set("");
    }
  }
}

void load_settings_once() {
  static std::once_flag once;
  std::call_once(once, load_settings);
}

std::string shared_name() {
  std::lock_guard lock(shared_name_mutex);
  return shared_name_value;
}

bool feature_absent(Feature feature) { return (settings.absent_features & feature) != 0; }

bool poison_wanted() {
  const int asked = settings.poison;
  if (asked >= 0) return asked == 1;
  return settings.misuse == MisuseMode::abort && settings.pretouch_bytes == 0;
}

}  // namespace emulated

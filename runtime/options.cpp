#include "runtime/options.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "runtime/limits.h"
#include "runtime/os.h"
#include "runtime/struct_size.h"

namespace sluice {
namespace {

struct Choice {
  std::string_view name;
  uint32_t value;
};

constexpr Choice kSwitch[] = {{"auto", SLUICE_AUTO}, {"on", SLUICE_ON}, {"off", SLUICE_OFF}};
constexpr Choice kBackend[] = {
    {"auto", SLUICE_IO_AUTO}, {"uring", SLUICE_IO_URING}, {"threads", SLUICE_IO_THREADS}};
constexpr Choice kLevel[] = {{"off", SLUICE_LOG_OFF},
                             {"error", SLUICE_LOG_ERROR},
                             {"warning", SLUICE_LOG_WARNING},
                             {"info", SLUICE_LOG_INFO},
                             {"debug", SLUICE_LOG_DEBUG}};

enum class Kind { kSize, kCount, kText, kChoice };

// One option. Exactly one of the member pointers is set, by kind.
struct Option {
  const char *name;
  Kind kind;
  uint64_t sluice_options::*size;
  uint32_t sluice_options::*number;
  const char *sluice_options::*text;
  std::span<const Choice> choices;
  uint64_t min, max;
  const char *bare;  // the value of the flag without one; nullptr: it needs one
  const char *values;
  const char *help;
};

using O = sluice_options;

constexpr Option size_option(const char *name, uint64_t O::*member, uint64_t min, uint64_t max,
                             const char *values, const char *help) {
  return {name, Kind::kSize, member, nullptr, nullptr, {}, min, max, nullptr, values, help};
}
constexpr Option choice_option(const char *name, uint32_t O::*member,
                               std::span<const Choice> choices, const char *bare,
                               const char *values, const char *help) {
  return {name, Kind::kChoice, nullptr, member, nullptr, choices, 0, 0, bare, values, help};
}

constexpr Option kOptions[] = {
    {"driver",
     Kind::kText,
     nullptr,
     nullptr,
     &O::driver,
     {},
     0,
     0,
     nullptr,
     "auto|emulated|none|PATH",
     "CUDA driver: the machine's, the emulated one, none (files only), or a library"},
    size_option("vram-limit", &O::vram_limit, 1, UINT64_MAX, "SIZE|none",
                "most VRAM to hold on each device"),
    size_option("vram-headroom", &O::vram_headroom, 1, kMaxBufferBytes, "SIZE",
                "VRAM of each device to leave to others"),
    size_option("pinned-limit", &O::pinned_limit, 1, UINT64_MAX, "SIZE|none",
                "most page-locked host memory"),
    size_option("ring", &O::ring, kMinSlotBytes *kMinSlots, kMaxRingBytes, "SIZE",
                "staging ring of each device, 128KiB to 1GiB (2 slots a reading thread)"),
    size_option("slot", &O::slot, kMinSlotBytes, kMaxSlotBytes, "SIZE",
                "one slot of the ring, a multiple of 4096, 64KiB to 64MiB (2MiB, "
                "4MiB from 8 reading threads on)"),
    choice_option("io", &O::io, kBackend, nullptr, "auto|uring|threads",
                  "how files are read: io_uring, or positioned reads on threads"),
    {"io-workers",
     Kind::kCount,
     nullptr,
     &O::io_workers,
     nullptr,
     {},
     1,
     kMaxWorkers,
     nullptr,
     "N",
     "reading threads of each device, 1 to 64 (by processors)"},
    choice_option("direct-io", &O::direct_io, kSwitch, nullptr, "auto|on|off",
                  "read around the page cache"),
    choice_option("fast-disk", &O::fast_disk, kSwitch, "on", "auto|on|off",
                  "weights without a pin may leave RAM and be read from disk again"),
    choice_option("huge-pages", &O::huge_pages, kSwitch, nullptr, "auto|on|off",
                  "huge pages for page-locked memory"),
    choice_option("log-level", &O::log_level, kLevel, nullptr, "off|error|warning|info|debug",
                  "which log lines to write"),
};

const Option *find_option(std::string_view name) {
  const auto *found = std::find_if(std::begin(kOptions), std::end(kOptions),
                                   [&](const Option &option) { return option.name == name; });
  return found == std::end(kOptions) ? nullptr : found;
}

Status bad_value(const Option &option, std::string_view value, std::string_view why) {
  return error(SLUICE_INVALID_ARGUMENT, "--{} {}: {}; it takes {} ({})", option.name, value, why,
               option.values, option.help);
}

Status out_of_bounds(const Option &option, std::string_view value) {
  const bool size = option.kind == Kind::kSize;
  const auto text = [&](uint64_t bound) {
    return size ? format_size(bound) : std::to_string(bound);
  };
  if (option.max == UINT64_MAX)
    return bad_value(option, value, fmt::format("must be at least {}", text(option.min)));
  return bad_value(option, value,
                   fmt::format("must be {} to {}", text(option.min), text(option.max)));
}

Status set_size(O &options, const Option &option, std::string_view value) {
  auto size = parse_size(value);
  if (!size.ok()) return bad_value(option, value, size.status().record().message);
  const uint64_t bytes = size.value();
  const bool none_allowed = option.max == UINT64_MAX;
  if (bytes == SLUICE_NO_LIMIT && !none_allowed) return bad_value(option, value, "it needs a size");
  if (bytes < option.min || bytes > option.max) return out_of_bounds(option, value);
  options.*option.size = bytes;
  return {};
}

Status set_count(O &options, const Option &option, std::string_view value) {
  uint32_t number = 0;
  const char *end = value.data() + value.size();
  const auto result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end)
    return bad_value(option, value, "not a whole number");
  if (number < option.min || number > option.max) return out_of_bounds(option, value);
  options.*option.number = number;
  return {};
}

Status set_choice(O &options, const Option &option, std::string_view value) {
  for (const Choice &choice : option.choices) {
    if (choice.name != value) continue;
    options.*option.number = choice.value;
    return {};
  }
  return bad_value(option, value, "no such choice");
}

Status set_option(O &options, const Option &option, const char *value) {
  if (!value) value = option.bare;
  if (!value)
    return error(SLUICE_INVALID_ARGUMENT, "--{} needs a value: {}", option.name, option.values);
  switch (option.kind) {
    case Kind::kSize:
      return set_size(options, option, value);
    case Kind::kCount:
      return set_count(options, option, value);
    case Kind::kChoice:
      return set_choice(options, option, value);
    case Kind::kText:
      if (!*value) return bad_value(option, value, "empty");
      options.*option.text = value;
      return {};
  }
  return {};
}

Status set_by_name(O &options, const char *name, const char *value) {
  const Option *option = find_option(name);
  if (!option) return error(SLUICE_NOT_FOUND, "no option is named '{}'", name);
  return set_option(options, *option, value);
}

bool is_unset(const O &options, const Option &option) {
  switch (option.kind) {
    case Kind::kSize:
      return options.*option.size == 0;
    case Kind::kText:
      return !(options.*option.text);
    default:
      return options.*option.number == 0;
  }
}

std::string environment_name(const Option &option) {
  std::string name = "SLUICE_";
  for (const char *c = option.name; *c; ++c)
    name += *c == '-' ? '_' : static_cast<char>(*c - ('a' - 'A'));
  return name;
}

// `texts` keeps what the options then point to.
Status add_environment(O &options, std::deque<std::string> &texts) {
  for (const Option &option : kOptions) {
    if (!is_unset(options, option)) continue;
    const std::string name = environment_name(option);
    std::optional<std::string> value = environment(name.c_str());
    if (!value || value->empty()) continue;
    texts.push_back(std::move(*value));
    if (Status status = set_option(options, option, texts.back().c_str()); !status.ok())
      return std::move(status).with_context("environment variable " + name);
  }
  return {};
}

Status check_bounds(const O &options) {
  for (const Option &option : kOptions) {
    if (is_unset(options, option)) continue;
    if (option.kind == Kind::kSize) {
      const uint64_t bytes = options.*option.size;
      if (bytes < option.min || bytes > option.max)
        return out_of_bounds(option, std::to_string(bytes));
    } else if (option.kind == Kind::kCount) {
      const uint32_t number = options.*option.number;
      if (number < option.min || number > option.max)
        return out_of_bounds(option, std::to_string(number));
    } else if (option.kind == Kind::kChoice) {
      const uint32_t value = options.*option.number;
      const bool known = std::any_of(option.choices.begin(), option.choices.end(),
                                     [&](const Choice &choice) { return choice.value == value; });
      if (!known) return bad_value(option, std::to_string(value), "no such choice");
    }
  }
  if (options.slot % kDirectAlignment != 0)
    return error(SLUICE_INVALID_ARGUMENT, "--slot {}: must be a multiple of {}", options.slot,
                 kDirectAlignment);
  if (options.ring && options.slot && options.ring / options.slot < kMinSlots)
    return error(SLUICE_INVALID_ARGUMENT, "--ring {}: must hold at least {} slots of {} bytes",
                 options.ring, kMinSlots, options.slot);
  return {};
}

template <typename T>
T or_default(uint32_t value, T otherwise) {
  return value ? static_cast<T>(value) : otherwise;
}

}  // namespace

Result<Options> resolve_options(const sluice_options *given) {
  sluice_options merged{};
  merged.struct_size = sizeof merged;
  if (given) SLUICE_TRY(read_struct(*given, "sluice_options", &merged));
  std::deque<std::string> texts;
  SLUICE_TRY(add_environment(merged, texts));
  SLUICE_TRY(check_bounds(merged));
  Options options;
  options.log_level = or_default(merged.log_level, options.log_level);
  options.log_function = merged.log_function;
  options.log_user = merged.log_user;
  if (merged.driver) options.driver = merged.driver;
  if (merged.vram_limit) options.vram_limit = merged.vram_limit;
  options.vram_headroom = merged.vram_headroom;
  options.pinned_limit = merged.pinned_limit;
  options.ring = merged.ring;
  options.slot = merged.slot;
  options.io = or_default(merged.io, options.io);
  options.io_workers = merged.io_workers;
  options.direct_io = or_default(merged.direct_io, options.direct_io);
  options.fast_disk = or_default(merged.fast_disk, options.fast_disk);
  options.huge_pages = or_default(merged.huge_pages, options.huge_pages);
  return options;
}

namespace {

// Options of "--name", "--name=value" or "--name value" at arguments[index].
struct Flag {
  const Option *option = nullptr;
  const char *value = nullptr;
  int taken = 0;  // how many arguments it is made of
};

bool looks_like_value(const Option &option, const char *next) {
  if (!next || std::strncmp(next, "--", 2) == 0) return false;
  if (!option.bare) return true;
  // A flag that can stand alone takes the next word only if that is one of its values.
  return std::any_of(option.choices.begin(), option.choices.end(),
                     [&](const Choice &choice) { return choice.name == next; });
}

Flag match_flag(int count, char **arguments, int index) {
  const char *word = arguments[index];
  if (std::strncmp(word, "--", 2) != 0) return {};
  const std::string_view body = word + 2;
  const size_t equals = body.find('=');
  const Option *option = find_option(body.substr(0, equals));
  if (!option) return {};
  if (equals != std::string_view::npos) return {option, word + 2 + equals + 1, 1};
  const char *next = index + 1 < count ? arguments[index + 1] : nullptr;
  if (looks_like_value(*option, next)) return {option, next, 2};
  return {option, nullptr, 1};
}

Status take_flags(sluice_options &options, int &count, char **arguments) {
  sluice_options updated = options;
  std::vector<char *> kept;
  int index = 0;
  for (; index < count; ++index) {
    if (index > 0 && std::strcmp(arguments[index], "--") == 0) break;
    const Flag flag = index == 0 ? Flag{} : match_flag(count, arguments, index);
    if (!flag.option) {
      kept.push_back(arguments[index]);
      continue;
    }
    SLUICE_TRY(set_option(updated, *flag.option, flag.value));
    index += flag.taken - 1;
  }
  kept.insert(kept.end(), arguments + index, arguments + count);
  std::copy(kept.begin(), kept.end(), arguments);
  if (static_cast<int>(kept.size()) < count) arguments[kept.size()] = nullptr;
  count = static_cast<int>(kept.size());
  options = updated;
  return {};
}

bool usable(const sluice_options *options) {
  return options && options->struct_size >= sizeof(sluice_options);
}

}  // namespace
}  // namespace sluice

extern "C" {

sluice_status sluice_options_set(sluice_options *options, const char *name, const char *value) {
  using namespace sluice;
  if (!usable(options) || !name)
    return publish(error(SLUICE_INVALID_ARGUMENT,
                         "sluice_options_set: options (with struct_size) and name are needed"));
  try {
    return publish(set_by_name(*options, name, value));
  } catch (...) {
    return publish(Status::out_of_host_memory());
  }
}

sluice_status sluice_options_take_flags(sluice_options *options, int *argument_count,
                                        char **arguments) {
  using namespace sluice;
  if (!usable(options) || !argument_count || (*argument_count > 0 && !arguments))
    return publish(error(SLUICE_INVALID_ARGUMENT,
                         "sluice_options_take_flags: options (with struct_size), count and "
                         "arguments are needed"));
  try {
    return publish(take_flags(*options, *argument_count, arguments));
  } catch (...) {
    return publish(Status::out_of_host_memory());
  }
}

bool sluice_options_describe(uint32_t index, const char **out_name, const char **out_values,
                             const char **out_help) {
  using namespace sluice;
  const Option *option = index < std::size(kOptions) ? &kOptions[index] : nullptr;
  if (out_name) *out_name = option ? option->name : nullptr;
  if (out_values) *out_values = option ? option->values : nullptr;
  if (out_help) *out_help = option ? option->help : nullptr;
  return option != nullptr;
}

}  // extern "C"

#include "tools/program/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string_view>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "tools/program/failure.h"
#include "tools/program/output.h"

namespace program {
namespace {

constexpr size_t kNameColumn = 30;
constexpr size_t kHelpWidth = 68;
constexpr std::array<const char *, 6> kCommands = {"doctor",   "inspect", "load",
                                                   "generate", "repack",  "bench"};

constexpr const char *kDescription =
    "sluice loads model weights from files to a GPU as fast as the hardware allows.";

constexpr const char *kFooter = R"(
Exit status: 0 done, 1 failed, 2 wrong usage; 128 + signal when interrupted.
Results go to stdout, errors, log lines and the progress bar to stderr. With --json a command
prints exactly one object; when it fails, the object has "error": {status, message, call, code}.

'sluice COMMAND --help' describes a command. Start with 'sluice doctor'.
)";

constexpr const char *kDoctorHelp =
    R"(Says what this machine offers and what would enable what is missing.

Driver, GPUs, memory and container limits, io_uring and direct I/O are found out by trying them.
Without a driver the rest is still reported, and the exit status is 0.)";

constexpr const char *kInspectHelp =
    R"(Lists what a safetensors or GGUF checkpoint holds. Reads headers only, and needs no GPU.

PATH is a safetensors or GGUF file, any file of a split GGUF set, an index of safetensors files, or
a folder with model.safetensors.index.json, a single .safetensors file, or a single .gguf file or
set.)";

constexpr const char *kLoadHelp =
    R"(Loads every tensor of a checkpoint to its final address on a GPU.

PATH is what 'sluice inspect' takes. The time runs from opening the checkpoint to the last byte's
arrival: headers, mapping of GPU memory and creation of the ring count, the driver's own start
doesn't.)";

constexpr const char *kLoadFooter = R"(
Examples:
  sluice load model.safetensors --verify
  sluice load model/ --vram-limit 20GiB --json
  sluice load model/ --driver emulated          without a GPU: real files, emulated GPU memory
)";

constexpr const char *kGenerateHelp =
    R"(Writes a valid checkpoint of pseudo-random data, for tests and measurements.

The format is safetensors or GGUF. The same options give the same bytes. F16, BF16 and F32 are
finite. The checkpoint is written under temporary names and renamed when it is complete; what was
there before is replaced.)";

constexpr const char *kGenerateFooter = R"(
Examples:
  sluice generate test.safetensors --size 4GiB --tensors 1000 --odd
  sluice generate model/ --size 8GiB --shards 4 --blocks 32 --tensors 290
  sluice generate model.gguf --size 4GiB --type Q4_K
)";

constexpr const char *kRepackHelp =
    R"(Writes a safetensors checkpoint anew in a layout for direct reads.

Tensors, names, types, shapes and metadata stay the same. SOURCE is what 'sluice inspect' takes.
In each new file the tensors that are whole pages of 4096 bytes come first, block by block, each
at a multiple of 4096; the others follow, block by block, the largest first. TARGET is written
under a temporary name and renamed when it is complete.)";

constexpr const char *kRepackFooter = R"(
Examples:
  sluice repack model.safetensors packed.safetensors --verify
  sluice repack model/ packed/ --shard-size 4GiB
)";

constexpr const char *kBenchHelp =
    R"(Measures how fast sluice moves a file's bytes, beside plain loops, side by side in one run.

FILE is any file. From the file to page-locked host memory, from there to the GPU, from the file
to the GPU, and page-locking itself: sluice and what a plain program can do take turns, and the
medians are shown with the processor seconds that each gigabyte costs. Files, memory and GPU are
made ready before; nothing is written.)";

constexpr const char *kBenchFooter = R"(
Examples:
  sluice bench io model.safetensors --verify
  sluice bench io model.safetensors --cold --rounds 3 --size 1GiB --json
)";

std::string library_options_help() {
  std::string text =
      "Options of every command; each is also an environment variable "
      "(--vram-limit: SLUICE_VRAM_LIMIT):\n";
  const char *name = nullptr;
  const char *values = nullptr;
  const char *help = nullptr;
  for (uint32_t i = 0; sluice_options_describe(i, &name, &values, &help); ++i) {
    std::string flag = fmt::format("  --{} {}", name, values);
    flag += flag.size() < kNameColumn ? std::string(kNameColumn - flag.size(), ' ')
                                      : '\n' + std::string(kNameColumn, ' ');
    text += flag;
    for (const char c : wrapped(help, kHelpWidth)) {
      text += c;
      if (c == '\n') text.append(kNameColumn, ' ');
    }
    text += '\n';
  }
  return text;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> costs(b.size() + 1);
  std::iota(costs.begin(), costs.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = costs[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = costs[j + 1];
      costs[j + 1] = std::min({replaced, diagonal + 1, costs[j] + 1});
    }
  }
  return costs.back();
}

// ", did you mean X?" where something in `known` is near; else nothing.
std::string suggestion(std::string_view word, const std::vector<std::string> &known) {
  size_t best_distance = word.size() / 3 + 1;
  const std::string *best = nullptr;
  for (const std::string &candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance > best_distance || (best != nullptr && distance == best_distance)) continue;
    best_distance = distance;
    best = &candidate;
  }
  return best == nullptr ? "" : fmt::format("; did you mean '{}'?", *best);
}

std::vector<std::string> known_flags(const CLI::App &command) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : command.get_options()) {
    for (const std::string &name : option->get_lnames()) flags.push_back("--" + name);
  }
  const char *name = nullptr;
  const char *values = nullptr;
  const char *help = nullptr;
  for (uint32_t i = 0; sluice_options_describe(i, &name, &values, &help); ++i) {
    flags.push_back(fmt::format("--{}", name));
  }
  return flags;
}

template <typename Number>
Number parse_number(const char *flag, const std::string &text, Number lowest, Number highest) {
  Number number = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < lowest || number > highest) {
    throw UsageError(fmt::format("{} '{}': it takes a whole number from {} to {}", flag,
                                 printable(text), lowest, highest));
  }
  return number;
}

uint64_t parse_size(const char *flag, const std::string &text) {
  uint64_t bytes = 0;
  if (sluice_parse_size(text.c_str(), &bytes) != SLUICE_OK || bytes == 0 ||
      bytes == SLUICE_NO_LIMIT) {
    throw UsageError(fmt::format("{} '{}': it takes a size above zero like 4096, 256MiB or 8GiB",
                                 flag, printable(text)));
  }
  return bytes;
}

sluice_type parse_type(const std::string &text) {
  constexpr sluice_type kTypes[] = {SLUICE_TYPE_F16,
                                    SLUICE_TYPE_BF16,
                                    SLUICE_TYPE_F32,
                                    SLUICE_TYPE_U8,
                                    SLUICE_TYPE_I8,
#define PROGRAM_TYPE(name, number, elements, bytes, text) SLUICE_TYPE_##name,
                                    SLUICE_BLOCK_TYPE_LIST(PROGRAM_TYPE)
#undef PROGRAM_TYPE
  };
  for (const sluice_type type : kTypes) {
    if (text == sluice_type_name(type)) return type;
  }
  throw UsageError(
      fmt::format("--type '{}': it takes F16, BF16, F32, U8, I8, or with --format "
                  "gguf a quantised type such as Q8_0 or Q4_K",
                  printable(text)));
}

sluice_format parse_format(const std::string &text) {
  if (text == "safetensors") return SLUICE_FORMAT_SAFETENSORS;
  if (text == "gguf") return SLUICE_FORMAT_GGUF;
  throw UsageError(fmt::format("--format '{}': it takes safetensors or gguf", printable(text)));
}

// What wasn't said follows from what was.
void complete(GenerateRequest *generate) {
  if (generate->format == SLUICE_FORMAT_UNKNOWN) {
    const bool gguf = generate->path.ends_with(".gguf") && generate->shards == 0;
    generate->format = gguf ? SLUICE_FORMAT_GGUF : SLUICE_FORMAT_SAFETENSORS;
  }
  if (generate->type != SLUICE_TYPE_UNKNOWN) return;
  const sluice_type byte = generate->format == SLUICE_FORMAT_GGUF ? SLUICE_TYPE_I8 : SLUICE_TYPE_U8;
  generate->type = generate->odd ? byte : SLUICE_TYPE_BF16;
}

using TextHandler = std::function<void(const std::string &)>;

CLI::Option *add_text(CLI::App *command, const char *name, const char *values, TextHandler handle,
                      std::string_view help) {
  return command
      ->add_option_function<std::string>(name, std::move(handle), wrapped(help, kHelpWidth))
      ->type_name(values)
      ->take_last();
}

void add_switch(CLI::App *command, const char *name, bool *value, std::string_view help) {
  command->add_flag(name, *value, wrapped(help, kHelpWidth))->disable_flag_override();
}

void add_json(CLI::App *command, Request *request) {
  add_switch(command, "--json", &request->json, "Print one JSON object on stdout");
}

void add_device(CLI::App *command, Request *request, const char *help) {
  constexpr uint32_t kHighestOrdinal = 1023;
  add_text(
      command, "--device", "N",
      [request](const std::string &text) {
        request->device = parse_number<uint32_t>("--device", text, 0, kHighestOrdinal);
      },
      help);
}

// Takes any number; how many are allowed is checked after unknown flags were refused, whose values
// look like paths.
void add_paths(CLI::App *command, Request *request, std::string_view help) {
  command->add_option("PATH", request->paths, wrapped(help, kHelpWidth))->expected(0, -1);
}

void add_doctor(CLI::App *app, Request *request) {
  CLI::App *command = app->add_subcommand("doctor", kDoctorHelp);
  add_paths(command, request,
            "Files or folders on whose file systems direct I/O is tried; a folder gets a small "
            "temporary file. Default: the current folder");
  add_device(command, request, "Report on GPU N only (default: all)");
  add_json(command, request);
}

void add_inspect(CLI::App *app, Request *request) {
  CLI::App *command = app->add_subcommand("inspect", kInspectHelp);
  add_paths(command, request, "The checkpoint to read");
  add_switch(command, "--tensors", &request->tensors,
             "List every tensor: name, type, shape, bytes, offset");
  add_json(command, request);
}

void add_load(CLI::App *app, Request *request) {
  CLI::App *command = app->add_subcommand("load", kLoadHelp);
  add_paths(command, request, "The checkpoint to read");
  add_switch(command, "--verify", &request->verify,
             "Afterwards copy every tensor back and compare it byte for byte with an independent "
             "read of the file (not timed); a difference is a failure");
  add_device(command, request, "Load to GPU N (default: 0)");
  add_json(command, request);
}

void add_generate_numbers(CLI::App *command, GenerateRequest *generate) {
  constexpr uint64_t kMostTensors = 10'000'000;
  constexpr uint32_t kMostShards = 10'000;
  add_text(
      command, "--tensors", "N",
      [generate](const std::string &text) {
        generate->tensors = parse_number<uint64_t>("--tensors", text, 1, kMostTensors);
      },
      "How many tensors (default: 200)");
  add_text(
      command, "--shards", "N",
      [generate](const std::string &text) {
        generate->shards = parse_number<uint32_t>("--shards", text, 1, kMostShards);
      },
      "Make PATH a folder with N files, and an index unless they are GGUF (default: PATH is one "
      "file)");
  add_text(
      command, "--blocks", "N",
      [generate](const std::string &text) {
        generate->blocks = parse_number<uint64_t>("--blocks", text, 0, kMostTensors);
      },
      "Name the tensors as N blocks, model.layers.0. and so on; what N doesn't divide becomes an "
      "embedding before and a head after them (default: 0, no blocks)");
  add_text(
      command, "--seed", "N",
      [generate](const std::string &text) {
        generate->seed = parse_number<uint64_t>("--seed", text, 0, UINT64_MAX);
      },
      "Other numbers give other data (default: 1)");
}

void add_generate(CLI::App *app, Request *request) {
  GenerateRequest *generate = &request->generate;
  CLI::App *command = app->add_subcommand("generate", kGenerateHelp);
  add_paths(command, request, "The checkpoint to write");
  add_text(
      command, "--size", "SIZE",
      [generate](const std::string &text) { generate->size_bytes = parse_size("--size", text); },
      "Bytes of all tensors together, rounded down to whole elements (required)");
  add_generate_numbers(command, generate);
  add_text(
      command, "--format", "FORMAT",
      [generate](const std::string &text) { generate->format = parse_format(text); },
      "safetensors or gguf (default: gguf where PATH ends in .gguf)");
  add_text(
      command, "--type", "TYPE",
      [generate](const std::string &text) { generate->type = parse_type(text); },
      "F16, BF16, F32, U8 or I8, or in a GGUF file a quantised type such as Q8_0 or Q4_K (default: "
      "BF16; with --odd U8, in a GGUF file I8)");
  add_switch(command, "--odd", &generate->odd,
             "Tensors of different, odd sizes at offsets that are aligned to nothing (in a GGUF "
             "file to 32); from 8 tensors on one is empty and one has a single element; --size is "
             "met but for an element or two");
  add_json(command, request);
}

void add_repack(CLI::App *app, Request *request) {
  CLI::App *command = app->add_subcommand("repack", kRepackHelp);
  add_paths(command, request,
            "SOURCE, the checkpoint to read, and TARGET: a file for a single file, a folder for a "
            "checkpoint with an index");
  add_switch(command, "--force", &request->force,
             "Replace TARGET: a file, or a folder that holds nothing but a checkpoint");
  add_text(
      command, "--shard-size", "SIZE",
      [request](const std::string &text) {
        request->shard_size_bytes = parse_size("--shard-size", text);
      },
      "Make TARGET a folder with files of at most SIZE bytes of tensors each; blocks that fit into "
      "a file aren't split (default: the files of SOURCE)");
  add_switch(command, "--verify", &request->verify,
             "Before it gets its name, compare TARGET with SOURCE by plain reads of both: "
             "metadata, names, types, shapes and every byte");
  add_json(command, request);
}

void add_bench(CLI::App *app, Request *request) {
  constexpr unsigned kMostRounds = 1000;
  CLI::App *command = app->add_subcommand("bench", kBenchHelp);
  add_paths(command, request, "The word io, and the FILE to read");
  add_text(
      command, "--rounds", "N",
      [request](const std::string &text) {
        request->bench.rounds = parse_number<unsigned>("--rounds", text, 1, kMostRounds);
      },
      "How often each takes its turn (default: 5)");
  add_text(
      command, "--size", "SIZE",
      [request](const std::string &text) {
        request->bench.size_bytes = parse_size("--size", text);
      },
      "Read at most SIZE bytes of FILE (default: 4GiB); as much GPU memory is needed");
  add_switch(command, "--cold", &request->bench.cold,
             "Measure reading from the disk too: the file is dropped from the page cache before "
             "each sample, and what stays in it is told");
  add_switch(command, "--verify", &request->verify,
             "Compare what sluice reads with the file (not timed); a difference is a failure");
  add_device(command, request, "Use GPU N (default: 0)");
  add_json(command, request);
}

class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() { column_width(kNameColumn); }

  std::string make_usage(const CLI::App *app, std::string) const override {
    if (app->get_parent() == nullptr) return "\nUsage: sluice COMMAND [OPTIONS] [PATH]\n";
    const std::string name = app->get_name();
    const char *arguments = name == "doctor" ? "[PATH...]" : "PATH";
    if (name == "generate") arguments = "PATH --size SIZE";
    if (name == "repack") arguments = "SOURCE TARGET";
    if (name == "bench") arguments = "io FILE";
    return fmt::format("\nUsage: sluice {} [OPTIONS] {}\n", name, arguments);
  }

  std::string make_option_opts(const CLI::Option *option) const override {
    const std::string values = option->get_type_name();
    return option->get_positional() || values.empty() ? "" : ' ' + values;
  }

  // In the list of commands only the first line of what describes them.
  std::string make_subcommand(const CLI::App *command) const override {
    const std::string description = command->get_description();
    constexpr size_t kCommandColumn = 12;
    return fmt::format("  {:<{}}{}\n", command->get_name(), kCommandColumn,
                       description.substr(0, description.find('\n')));
  }
};

const char *examples_of(std::string_view command) {
  if (command == "load") return kLoadFooter;
  if (command == "generate") return kGenerateFooter;
  if (command == "bench") return kBenchFooter;
  return command == "repack" ? kRepackFooter : "";
}

void build_commands(CLI::App *app, Request *request) {
  app->name("sluice");
  app->set_help_flag("-h,--help", "Print this help");
  app->formatter(std::make_shared<HelpFormatter>());
  app->add_flag_callback(
      "--version", [] {}, "Print the version");  // answered before CLI11 runs
  add_doctor(app, request);
  add_inspect(app, request);
  add_load(app, request);
  add_generate(app, request);
  add_repack(app, request);
  add_bench(app, request);
  const std::string options = library_options_help();
  for (CLI::App *command : app->get_subcommands({})) {
    command->allow_extras();
    command->footer(options + examples_of(command->get_name()));
  }
  app->footer(options + kFooter);
}

// The first argument must be a command; CLI11's own message wouldn't name what is allowed.
void check_command_word(int count, char **arguments) {
  const std::vector<std::string> commands(kCommands.begin(), kCommands.end());
  const std::string allowed = fmt::format("{}", fmt::join(commands, ", "));
  if (count < 2) {
    throw UsageError(
        fmt::format("a command is missing: {}; 'sluice --help' explains them", allowed));
  }
  const std::string word = arguments[1];
  if (word == "-h" || word == "--help") return;
  if (std::find(commands.begin(), commands.end(), word) != commands.end()) return;
  if (word.starts_with('-')) {
    throw UsageError(
        fmt::format("unknown flag '{}' before the command (one of: {})", printable(word), allowed));
  }
  throw UsageError(fmt::format("unknown command '{}': there are {}{}", printable(word), allowed,
                               suggestion(word, commands)));
}

void refuse_extras(const CLI::App &command) {
  const std::string name = command.get_name();
  for (const std::string &extra : command.remaining()) {
    const std::string flag = extra.substr(0, extra.find('='));
    throw UsageError(fmt::format("unknown flag '{}' of 'sluice {}'{}{}", printable(flag), name,
                                 suggestion(flag, known_flags(command)),
                                 fmt::format(" ('sluice {} --help' lists all)", name)));
  }
}

void require_arguments(const Request &request) {
  if (request.command == "doctor") return;
  const size_t expected = request.command == "repack" || request.command == "bench" ? 2 : 1;
  if (request.paths.size() > expected) {
    throw UsageError(fmt::format("one argument too many for 'sluice {}': '{}'", request.command,
                                 printable(request.paths[expected])));
  }
  const bool lacks_one =
      request.paths.size() < expected || request.paths[0].empty() || request.paths.back().empty();
  if (request.command == "repack" && lacks_one) {
    throw UsageError(
        "'sluice repack' needs SOURCE and TARGET: the checkpoint to read, and the one to write");
  }
  if (request.command == "bench" && (lacks_one || request.paths[0] != "io")) {
    throw UsageError(
        "'sluice bench' needs the word io and a FILE: sluice bench io model.safetensors");
  }
  if (lacks_one) {
    throw UsageError(fmt::format("'sluice {}' needs a PATH: the checkpoint {}", request.command,
                                 request.command == "generate" ? "to write" : "to read"));
  }
  if (request.command == "generate" && request.generate.size_bytes == 0) {
    throw UsageError("'sluice generate' needs --size SIZE, for instance --size 256MiB");
  }
}

std::string version_text() {
  const uint32_t version = sluice_version();
  return fmt::format("sluice {}.{}.{}\n", version / 1'000'000, version / 1'000 % 1'000,
                     version % 1'000);
}

// CLI11 words a missing value as "--size: 1 required SIZE missing", and a superfluous one as
// "json was given a disallowed flag override".
std::string parse_error_text(const std::string &text) {
  constexpr std::string_view kRequired = ": 1 required ";
  constexpr std::string_view kMissing = " missing";
  constexpr std::string_view kOverride = " was given a disallowed flag override";
  if (text.ends_with(kOverride)) {
    return fmt::format("--{} takes no value", text.substr(0, text.size() - kOverride.size()));
  }
  const size_t split = text.find(kRequired);
  if (split == std::string::npos || !text.ends_with(kMissing)) return text;
  const size_t start = split + kRequired.size();
  return fmt::format("{} needs a value: {}", text.substr(0, split),
                     text.substr(start, text.size() - kMissing.size() - start));
}

// 'sluice help' and 'sluice help load' are 'sluice --help' and 'sluice load --help'.
void translate_help(int count, char **arguments) {
  static char help_flag[] = "--help";
  if (count < 2 || count > 3 || std::string_view(arguments[1]) != "help") return;
  arguments[1] = arguments[count - 1];
  arguments[count - 1] = help_flag;
}

void take_library_flags(sluice_options *options, int *count, char **arguments) {
  const sluice_status status = sluice_options_take_flags(options, count, arguments);
  if (status == SLUICE_INVALID_ARGUMENT || status == SLUICE_NOT_FOUND) {
    throw UsageError(library_failure(status).what());
  }
  check(status);
}

}  // namespace

Request parse_command_line(int count, char **arguments) {
  Request request;
  take_library_flags(&request.library, &count, arguments);
  if (count == 2 && std::string_view(arguments[1]) == "--version") {
    request.text = version_text();
    return request;
  }
  translate_help(count, arguments);
  check_command_word(count, arguments);
  // What follows "--" are paths, whatever they begin with.
  const int end =
      static_cast<int>(std::find(arguments, arguments + count, std::string_view("--")) - arguments);
  CLI::App app(kDescription);
  app.allow_windows_style_options(false);  // there, /models/a.gguf is a path too
  build_commands(&app, &request);
  try {
    app.parse(end, arguments);
  } catch (const CLI::CallForHelp &) {
    const auto commands = app.get_subcommands();
    request.text = commands.empty() ? app.help() : commands.front()->help();
    return request;
  } catch (const CLI::ParseError &error) {
    throw UsageError(parse_error_text(error.what()));
  }
  const CLI::App *command = app.get_subcommands().front();
  request.command = command->get_name();
  refuse_extras(*command);
  if (end < count) {
    request.paths.insert(request.paths.end(), arguments + end + 1, arguments + count);
  }
  require_arguments(request);
  if (request.command == "generate") {
    request.generate.path = request.paths.front();
    complete(&request.generate);
  }
  return request;
}

bool asks_for_json(int count, char **arguments) {
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--") return false;
    if (argument == "--json") return true;
  }
  return false;
}

}  // namespace program

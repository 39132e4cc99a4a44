// sluice load: a whole checkpoint to a GPU, timed from opening it to the last byte's arrival.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/handles.h"
#include "tools/program/interrupt.h"
#include "tools/program/output.h"
#include "tools/program/progress.h"
#include "tools/program/verify.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

// The members are destroyed from the last to the first, as the library asks.
struct Loaded {
  Runtime runtime;
  Device device;
  Checkpoint checkpoint;
  Buffer buffer;
  std::vector<uint64_t> addresses;
  double seconds = 0;         // all of it
  double header_seconds = 0;  // of them, opening the checkpoint
};

struct Facts {
  sluice_report report = sized<sluice_report>();
  sluice_device_info device = sized<sluice_device_info>();
  sluice_checkpoint_info checkpoint = sized<sluice_checkpoint_info>();
  sluice_io_info io = sized<sluice_io_info>();
  sluice_stats stats = sized<sluice_stats>();
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool show_progress(void *user, uint64_t bytes_done, uint64_t bytes_total) {
  static_cast<Progress *>(user)->update(bytes_done, bytes_total);
  return interrupted() == 0;
}

Loaded load(const Request &request) {
  Loaded loaded;
  loaded.runtime = create_runtime(request.library);
  loaded.device = open_device(loaded.runtime, request.device.value_or(0));
  stop_if_interrupted();

  const auto start = Clock::now();
  loaded.checkpoint = open_checkpoint(loaded.runtime, request.paths.front().c_str());
  loaded.header_seconds = seconds_since(start);
  auto info = sized<sluice_checkpoint_info>();
  check(sluice_checkpoint_info_get(loaded.checkpoint.get(), &info));
  loaded.addresses.resize(info.tensor_count);
  Progress progress("loading");
  sluice_buffer *buffer = nullptr;
  check(sluice_checkpoint_load(loaded.checkpoint.get(), loaded.device.get(), 0, nullptr, nullptr,
                               show_progress, &progress, &buffer, loaded.addresses.data()));
  loaded.buffer.reset(buffer);
  check(sluice_stream_synchronize(loaded.device.get(), nullptr));
  loaded.seconds = seconds_since(start);
  progress.finish();
  return loaded;
}

Facts facts_of(const Loaded &loaded) {
  Facts facts;
  check(sluice_stats_get(loaded.runtime.get(), &facts.stats));
  check(sluice_report_get(loaded.runtime.get(), &facts.report));
  check(sluice_device_info_get(loaded.device.get(), &facts.device));
  check(sluice_checkpoint_info_get(loaded.checkpoint.get(), &facts.checkpoint));
  check(sluice_io_info_get(loaded.device.get(), &facts.io));
  return facts;
}

const char *backend_name(uint32_t backend) {
  if (backend == SLUICE_IO_URING) return "uring";
  if (backend == SLUICE_IO_THREADS) return "threads";
  return "none";
}

Json stats_json(const sluice_stats &stats) {
  Json json = Json::object();
#define PROGRAM_STATS_ENTRY(name, meaning) json[#name] = json_or_null(stats.name);
  SLUICE_STATS_LIST(PROGRAM_STATS_ENTRY)
#undef PROGRAM_STATS_ENTRY
  return json;
}

Json verify_json(const std::optional<VerifyResult> &verified) {
  if (!verified) {
    return {{"verified", nullptr}, {"mismatched_tensors", nullptr}};
  }
  return {{"verified", verified->mismatched_tensors == 0},
          {"mismatched_tensors", verified->mismatched_tensors},
          {"mismatched_names", verified->first_names},
          {"verify_seconds", verified->seconds}};
}

Json load_json(const Request &request, const Loaded &loaded, const Facts &facts,
               const std::optional<VerifyResult> &verified) {
  Json json = {{"path", request.paths.front()},
               {"format", format_name(facts.checkpoint.format)},
               {"bytes", facts.checkpoint.data_bytes},
               {"tensors", facts.checkpoint.tensor_count},
               {"shards", facts.checkpoint.shard_count},
               {"seconds", loaded.seconds},
               {"header_seconds", loaded.header_seconds},
               {"gb_per_s", gigabytes_per_second(facts.checkpoint.data_bytes, loaded.seconds)}};
  json.update(verify_json(verified));
  add_driver(facts.report, &json);
  json["device"] = {{"ordinal", facts.device.ordinal},
                    {"name", facts.device.name},
                    {"total_bytes", facts.device.total_bytes},
                    {"limit_bytes", json_or_null(facts.device.limit_bytes)}};
  json["io"] = {
      {"backend", backend_name(facts.io.backend)}, {"direct", facts.io.direct},
      {"fixed_buffers", facts.io.fixed_buffers},   {"reason", facts.io.reason},
      {"ring_bytes", facts.device.ring_bytes},     {"ring_slots", facts.device.ring_slots},
      {"workers", facts.device.io_workers}};
  json["pinned_peak_bytes"] = facts.stats.pinned_peak_bytes;
  json["vram_peak_bytes"] = facts.stats.vram_peak_bytes;
  json["stats"] = stats_json(facts.stats);
  return json;
}

std::string reading_text(const Facts &facts) {
  if (facts.io.backend == 0) return "nothing was read";
  return fmt::format("{}\nring of {} in {}, {}", facts.io.reason,
                     human_size(facts.device.ring_bytes), counted(facts.device.ring_slots, "slot"),
                     counted(facts.device.io_workers, "worker"));
}

std::string load_text(const Request &request, const Loaded &loaded, const Facts &facts,
                      const std::optional<VerifyResult> &verified) {
  const uint64_t bytes = facts.checkpoint.data_bytes;
  std::string text =
      fmt::format("{}: {}, {} in {:.3f} s: {:.2f} GB/s\n", printable(request.paths.front()),
                  counted(facts.checkpoint.tensor_count, "tensor"), human_size(bytes),
                  loaded.seconds, gigabytes_per_second(bytes, loaded.seconds));
  text += row("format", fmt::format("{}, {}", format_name(facts.checkpoint.format),
                                    counted(facts.checkpoint.shard_count, "file")));
  text +=
      row("device",
          fmt::format("{}: {}, {}driver {}, {}", facts.device.ordinal, facts.device.name,
                      facts.report.driver_emulated ? "emulated " : "",
                      driver_version_text(facts.report.driver_version), facts.report.driver_path));
  text += row("reading", reading_text(facts));
  text += row("memory", fmt::format("at most {} of VRAM, {} of pinned RAM",
                                    human_size(facts.stats.vram_peak_bytes),
                                    human_size(facts.stats.pinned_peak_bytes)));
  if (verified && verified->mismatched_tensors == 0) {
    text += row("verified", fmt::format("{} equal to the file byte for byte, in {:.3f} s",
                                        counted(verified->tensors, "tensor"), verified->seconds));
  }
  return text;
}

Failure mismatch(const VerifyResult &verified) {
  const size_t unnamed = verified.mismatched_tensors - verified.first_mismatches.size();
  return Failure(
      "VERIFY_FAILED",
      fmt::format("{} of {} differ from the file: {}{}", verified.mismatched_tensors,
                  counted(verified.tensors, "tensor"), fmt::join(verified.first_mismatches, "; "),
                  unnamed == 0 ? "" : fmt::format(" and {} more", unnamed)));
}

}  // namespace

int run_load(const Request &request) {
  const Loaded loaded = load(request);
  const Facts facts = facts_of(loaded);
  std::optional<VerifyResult> verified;
  if (request.verify) {
    verified = verify_tensors(loaded.checkpoint.get(), loaded.device.get(), loaded.addresses);
  }
  const bool differs = verified && verified->mismatched_tensors != 0;
  if (!request.json) {
    write_stdout(load_text(request, loaded, facts, verified));
    if (differs) throw mismatch(*verified);
    return kExitDone;
  }
  Json json = load_json(request, loaded, facts, verified);
  if (differs) {
    json["error"] = error_json(mismatch(*verified));
    write_stderr(fmt::format("sluice: {}\n", mismatch(*verified).what()));
  }
  write_json(json);
  return differs ? kExitFailed : kExitDone;
}

}  // namespace program

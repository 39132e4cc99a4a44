#include "tools/program/bench_report.h"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

#include "tools/program/failure.h"

namespace program {
namespace {

// The fastest of sluice's rows of a work beside the fastest plain one.
struct Ratio {
  const BenchRow *sluice = nullptr;
  const BenchRow *plain = nullptr;

  [[nodiscard]] double seconds() const { return sluice->seconds() / plain->seconds(); }
  [[nodiscard]] double processor_seconds() const {
    const double plain_seconds = plain->processor_s_per_gb();
    return plain_seconds > 0 ? sluice->processor_s_per_gb() / plain_seconds : 0;
  }
};

std::vector<std::string> works_of(const std::vector<BenchRow> &rows) {
  std::vector<std::string> works;
  for (const BenchRow &row : rows) {
    if (works.empty() || works.back() != row.work) works.push_back(row.work);
  }
  return works;
}

std::optional<Ratio> ratio_of(const std::vector<BenchRow> &rows, const std::string &work) {
  Ratio ratio;
  for (const BenchRow &row : rows) {
    if (row.work != work) continue;
    const BenchRow *&best = row.sluice ? ratio.sluice : ratio.plain;
    if (best == nullptr || row.seconds() < best->seconds()) best = &row;
  }
  if (ratio.sluice == nullptr || ratio.plain == nullptr) return std::nullopt;
  return ratio;
}

Json resident_json(double part) { return part < 0 ? Json() : Json(part); }

Json row_json(const BenchRow &row) {
  return {{"work", row.work},
          {"how", row.how},
          {"sluice", row.sluice},
          {"bytes", row.bytes},
          {"samples", row.samples.size()},
          {"seconds",
           {{"median", row.seconds()}, {"min", row.least_seconds()}, {"max", row.most_seconds()}}},
          {"gb_per_s", row.gb_per_s()},
          {"processor_s_per_gb", row.processor_s_per_gb()}};
}

Json ratios_json(const std::vector<BenchRow> &rows) {
  Json ratios = Json::array();
  for (const std::string &work : works_of(rows)) {
    const std::optional<Ratio> ratio = ratio_of(rows, work);
    if (!ratio) continue;
    ratios.push_back({{"work", work},
                      {"sluice", ratio->sluice->how},
                      {"best_plain", ratio->plain->how},
                      {"seconds", ratio->seconds()},
                      {"processor_seconds", ratio->processor_seconds()}});
  }
  return ratios;
}

std::string row_text(const BenchRow &row) {
  return fmt::format("  {:<44} {:>9.4f} {:>9.4f} {:>9.4f} {:>8.2f} {:>8.3f}\n", row.how,
                     row.seconds(), row.least_seconds(), row.most_seconds(), row.gb_per_s(),
                     row.processor_s_per_gb());
}

std::string work_text(const std::vector<BenchRow> &rows, const std::string &work) {
  std::string text = fmt::format("\n{:<46} {:>9} {:>9} {:>9} {:>8} {:>8}\n", work, "seconds",
                                 "least", "most", "GB/s", "CPU s/GB");
  for (const BenchRow &row : rows) {
    if (row.work == work) text += row_text(row);
  }
  const std::optional<Ratio> ratio = ratio_of(rows, work);
  if (!ratio) return text;
  return text + fmt::format("  sluice takes {:.3f} of the time of the best plain row ({})\n",
                            ratio->seconds(), ratio->plain->how);
}

std::string percent(double part) {
  return part < 0 ? "unknown: the system doesn't tell" : fmt::format("{:.1f} %", part * 100);
}

std::string cache_text(const BenchResult &result) {
  std::string text = fmt::format("warm: {}", percent(result.warm_resident));
  if (result.cold_resident)
    text += fmt::format("; cold: {} at most", percent(*result.cold_resident));
  return text + " of what is read";
}

}  // namespace

Json bench_json(const Request &request, const BenchSetup &setup, const BenchResult &result) {
  auto report = sized<sluice_report>();
  auto device = sized<sluice_device_info>();
  check(sluice_report_get(setup.runtime.get(), &report));
  check(sluice_device_info_get(setup.device.get(), &device));
  Json json = {{"path", setup.file->path()},
               {"bytes", setup.file->bytes()},
               {"file_bytes", setup.file->file_bytes()},
               {"rounds", request.bench.rounds}};
  add_driver(report, &json);
  json["device"] = {{"ordinal", device.ordinal}, {"name", device.name}};
  json["processors"] = report.processors;
  json["ring_bytes"] = device.ring_bytes;
  json["slot_bytes"] = setup.slot_bytes;
  json["resident"] = {
      {"warm", resident_json(result.warm_resident)},
      {"cold", result.cold_resident ? resident_json(*result.cold_resident) : Json()}};
  json["verified"] = result.verified ? Json(true) : Json();
  json["rows"] = Json::array();
  for (const BenchRow &row : result.rows) json["rows"].push_back(row_json(row));
  json["ratios"] = ratios_json(result.rows);
  json["notes"] = setup.notes;
  return json;
}

std::string bench_text(const Request &request, const BenchSetup &setup, const BenchResult &result) {
  auto report = sized<sluice_report>();
  auto device = sized<sluice_device_info>();
  check(sluice_report_get(setup.runtime.get(), &report));
  check(sluice_device_info_get(setup.device.get(), &device));
  std::string text =
      fmt::format("{}: {}, {}, medians\n", printable(setup.file->path()),
                  human_size(setup.file->bytes()), counted(request.bench.rounds, "round"));
  text += row("device", fmt::format("{}: {}, {}driver {}", device.ordinal, device.name,
                                    report.driver_emulated ? "emulated " : "",
                                    driver_version_text(report.driver_version)));
  text += row("processors", std::to_string(report.processors));
  text += row("ring", fmt::format("{} in slots of {}", human_size(device.ring_bytes),
                                  human_size(setup.slot_bytes)));
  text += row("page cache", cache_text(result));
  if (result.verified) text += row("verified", "what sluice read equals the file byte for byte");
  for (const std::string &note : setup.notes) text += row("note", printable(note));
  for (const std::string &work : works_of(result.rows)) text += work_text(result.rows, work);
  return text;
}

}  // namespace program

// sluice repack: the same checkpoint in a layout for direct reads, block by block.
//
// The source is opened and checked by the library, the new files are planned (repack_plan.h),
// written under temporary names (repack_target.h, repack_copy.h), on demand compared with the
// source, and named when all of that is done.
#include <chrono>
#include <filesystem>
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
#include "tools/program/repack_copy.h"
#include "tools/program/repack_plan.h"
#include "tools/program/repack_source.h"
#include "tools/program/repack_target.h"
#include "tools/program/repack_verify.h"

namespace program {
namespace {

using Clock = std::chrono::steady_clock;

// All that the new checkpoint must not replace: the path that was given, folder and files.
std::vector<std::string> paths_of(const RepackSource &source, const std::string &path) {
  std::vector<std::string> paths = source.shards;
  paths.push_back(path);
  if (source.index.empty()) return paths;
  const std::string folder = std::filesystem::path(source.index).parent_path().string();
  paths.push_back(folder.empty() ? "." : folder);
  return paths;
}

void write_files(const RepackSource &source, const RepackPlan &plan, NewCheckpoint *target) {
  TensorCopier copier(source);
  for (const RepackFile &planned : plan.files) {
    NewFile *file = target->add_file(planned.name);
    file->reserve(planned.bytes);
    file->write(planned.header.data(), planned.header.size(), 0);
    copier.copy(planned, file);
    file->sync();
    file->close();
  }
  if (!plan.index_name.empty()) {
    NewFile *index = target->add_file(plan.index_name);
    index->write(plan.index.data(), plan.index.size(), 0);
    index->sync();
    index->close();
  }
  copier.check_sources();
  stop_if_interrupted();
}

VerifyResult verify(const Runtime &runtime, const RepackSource &source, const RepackPlan &plan,
                    const NewCheckpoint &target) {
  std::string path = target.temporary_path();
  if (!plan.index_name.empty()) path += '/' + plan.index_name;
  return verify_repack(source, open_repack_source(runtime, path));
}

void throw_mismatch(const VerifyResult &verified) {
  const size_t unnamed = verified.mismatched_tensors - verified.first_mismatches.size();
  throw Failure("VERIFY_FAILED",
                fmt::format("{} of {} differ from the original, and nothing was kept: {}{}",
                            verified.mismatched_tensors, counted(verified.tensors, "tensor"),
                            fmt::join(verified.first_mismatches, "; "),
                            unnamed == 0 ? "" : fmt::format(" and {} more", unnamed)));
}

double percentage(uint64_t part, uint64_t whole) {
  return whole == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

Json result_json(const Request &request, const RepackSource &source, const RepackPlan &plan,
                 double seconds, const std::optional<VerifyResult> &verified) {
  Json json = {{"source", request.paths[0]},
               {"path", request.paths[1]},
               {"bytes", source.data_bytes},
               {"file_bytes", plan.bytes},
               {"tensors", source.tensors.size()},
               {"shards", plan.files.size()},
               {"aligned_tensors", plan.aligned_tensors},
               {"aligned_bytes", plan.aligned_bytes},
               {"seconds", seconds},
               {"gb_per_s", gigabytes_per_second(source.data_bytes, seconds)},
               {"verified", nullptr}};
  if (verified) {
    json["verified"] = true;
    json["verify_seconds"] = verified->seconds;
  }
  return json;
}

std::string result_text(const Request &request, const RepackSource &source, const RepackPlan &plan,
                        double seconds, const std::optional<VerifyResult> &verified) {
  std::string text =
      fmt::format("{}: {}, {} in {:.3f} s: {:.2f} GB/s\n", printable(request.paths[1]),
                  counted(source.tensors.size(), "tensor"), human_size(source.data_bytes), seconds,
                  gigabytes_per_second(source.data_bytes, seconds));
  text +=
      row("aligned", fmt::format("{} of {}, {:.1f} % of the bytes, in whole pages of {} bytes",
                                 plan.aligned_tensors, counted(source.tensors.size(), "tensor"),
                                 percentage(plan.aligned_bytes, source.data_bytes), kPageBytes));
  text += row("files",
              fmt::format("{}{}, {}", counted(plan.files.size(), "file"),
                          plan.index_name.empty() ? "" : " and an index", human_size(plan.bytes)));
  if (!verified) return text;
  return text +
         row("verified", fmt::format("{} equal to the original byte for byte, in {:.3f} s",
                                     counted(verified->tensors, "tensor"), verified->seconds));
}

}  // namespace

int run_repack(const Request &request) {
  sluice_options options = request.library;
  if (options.driver == nullptr) options.driver = "none";
  const Runtime runtime = create_runtime(options);
  const auto start = Clock::now();
  const RepackSource source = open_repack_source(runtime, request.paths[0]);
  const RepackPlan plan = plan_repack(source, request.shard_size_bytes);
  NewCheckpoint target(request.paths[1], !plan.index_name.empty(), request.force,
                       paths_of(source, request.paths[0]));
  target.check_room(plan.bytes);
  target.begin();
  write_files(source, plan, &target);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::optional<VerifyResult> verified;
  if (request.verify) {
    verified = verify(runtime, source, plan, target);
    if (verified->mismatched_tensors != 0) throw_mismatch(*verified);
  }
  target.publish();
  if (request.json) {
    write_json(result_json(request, source, plan, seconds, verified));
  } else {
    write_stdout(result_text(request, source, plan, seconds, verified));
  }
  return kExitDone;
}

}  // namespace program

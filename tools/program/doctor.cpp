// sluice doctor: what this machine offers, found by trying, and what would enable what is missing.
// A diagnosis succeeds even where everything is missing; only a PATH or GPU that was asked for by
// name and isn't there is a failure.
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/handles.h"
#include "tools/program/output.h"
#include "tools/program/owned_fd.h"

namespace program {
namespace {

constexpr size_t kProbeBytes = 64 * 1024;
constexpr const char *kNoGpuRemedy =
    "look for it with nvidia-smi, and at CUDA_VISIBLE_DEVICES and the container's --gpus";

struct Missing {
  std::string what;
  std::string remedy;
};

struct Link {
  std::string speed, width, most_speed, most_width;  // as sysfs words them; empty: unknown
};

struct DeviceFacts {
  uint32_t ordinal = 0;
  std::optional<sluice_device_info> info;
  Link link;
  std::optional<Failure> failure;
};

struct PathFacts {
  std::string path;
  bool temporary = false;  // a file was made in a folder for the test
  std::optional<sluice_file_info> info;
  std::optional<sluice_fast_disk_info> fast_disk;  // of a checkpoint, where there is a device
  std::optional<Failure> failure;
};

struct Diagnosis {
  std::optional<Failure> driver_failure;
  sluice_report report = sized<sluice_report>();
  std::vector<DeviceFacts> devices;
  std::vector<PathFacts> paths;
  std::vector<Missing> missing;
  std::optional<Failure> failure;  // of what was asked for by name and isn't there
};

Runtime create_any_runtime(const Request &request, Diagnosis *diagnosis) {
  try {
    return create_runtime(request.library);
  } catch (const Failure &failure) {
    diagnosis->driver_failure = failure;
  }
  sluice_options options = request.library;
  options.driver = "none";
  return create_runtime(options);
}

std::string first_line(const std::string &path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

Link link_of(std::string pci_bus_id) {
  if (pci_bus_id.empty()) return {};
  for (char &c : pci_bus_id) c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::string folder = "/sys/bus/pci/devices/" + pci_bus_id;
  return {first_line(folder + "/current_link_speed"), first_line(folder + "/current_link_width"),
          first_line(folder + "/max_link_speed"), first_line(folder + "/max_link_width")};
}

DeviceFacts diagnose_device(const Runtime &runtime, uint32_t ordinal) {
  DeviceFacts facts;
  facts.ordinal = ordinal;
  try {
    const Device device = open_device(runtime, ordinal);
    auto info = sized<sluice_device_info>();
    check(sluice_device_info_get(device.get(), &info));
    facts.link = link_of(info.pci_bus_id);
    facts.info = info;
  } catch (const Failure &failure) {
    facts.failure = failure;
  }
  return facts;
}

void diagnose_devices(const Request &request, const Runtime &runtime, Diagnosis *diagnosis) {
  uint32_t first = 0;
  uint32_t end = diagnosis->report.device_count;
  if (request.device) {
    first = *request.device;
    end = first + 1;
  }
  if (diagnosis->driver_failure || diagnosis->report.driver_version == 0) return;
  for (uint32_t ordinal = first; ordinal < end; ++ordinal) {
    diagnosis->devices.push_back(diagnose_device(runtime, ordinal));
    const DeviceFacts &facts = diagnosis->devices.back();
    if (request.device && facts.failure) diagnosis->failure = facts.failure;
  }
  if (end == 0) {
    diagnosis->missing.push_back({"a GPU", kNoGpuRemedy});
  }
}

// A small file in `folder` that is gone as soon as its owner is; its content is on the way to disk.
class ProbeFile {
 public:
  explicit ProbeFile(const std::string &folder) : path_(folder + "/.sluice-doctor-XXXXXX") {
    fd_ = OwnedFd(make_temporary(&path_));
    if (fd_.get() < 0) {
      const int error = errno;
      throw system_failure(fmt::format("no file can be made in '{}', name one that exists", folder),
                           "mkostemp", error);
    }
    const std::vector<char> zeros(kProbeBytes);
    if (write_at(fd_.get(), zeros.data(), zeros.size(), 0) != int64_t{kProbeBytes}) {
      const int error = errno;
      remove_file(path_);
      throw system_failure(fmt::format("writing '{}' failed", path_), "write", error);
    }
  }
  ~ProbeFile() { remove_file(path_); }
  ProbeFile(const ProbeFile &) = delete;
  ProbeFile &operator=(const ProbeFile &) = delete;

  [[nodiscard]] const std::string &path() const { return path_; }

 private:
  std::string path_;
  OwnedFd fd_;
};

sluice_file_info diagnose_file(const Runtime &runtime, const std::string &path) {
  sluice_file *opened = nullptr;
  check(sluice_file_open(runtime.get(), path.c_str(), &opened));
  const File file(opened);
  auto info = sized<sluice_file_info>();
  check(sluice_file_info_get(file.get(), &info));
  return info;
}

PathFacts diagnose_path(const Runtime &runtime, const std::string &path) {
  PathFacts facts;
  facts.path = path;
  std::error_code ignored;
  facts.temporary = std::filesystem::is_directory(path, ignored);
  try {
    if (facts.temporary) {
      const ProbeFile probe(path);
      facts.info = diagnose_file(runtime, probe.path());
    } else {
      facts.info = diagnose_file(runtime, path);
    }
  } catch (const Failure &failure) {
    facts.failure = failure;
  }
  return facts;
}

// Nothing where the path is no checkpoint.
std::optional<sluice_fast_disk_info> diagnose_fast_disk(const Runtime &runtime, uint32_t ordinal,
                                                        const std::string &path) {
  try {
    const Device device = open_device(runtime, ordinal);
    const Checkpoint checkpoint = open_checkpoint(runtime, path.c_str());
    auto info = sized<sluice_fast_disk_info>();
    check(sluice_checkpoint_fast_disk(checkpoint.get(), device.get(), &info));
    return info;
  } catch (const Failure &) {
    return std::nullopt;
  }
}

void diagnose_paths(const Request &request, const Runtime &runtime, Diagnosis *diagnosis) {
  std::vector<std::string> paths = request.paths;
  if (paths.empty()) paths.emplace_back(".");
  for (const std::string &path : paths) {
    diagnosis->paths.push_back(diagnose_path(runtime, path));
    PathFacts &facts = diagnosis->paths.back();
    if (facts.info && !request.paths.empty() && !diagnosis->devices.empty())
      facts.fast_disk = diagnose_fast_disk(runtime, diagnosis->devices.front().ordinal, path);
    if (facts.failure && !request.paths.empty()) {
      diagnosis->failure = facts.failure;
      diagnosis->missing.push_back({fmt::format("'{}'", path), "name a file or folder to read"});
    }
    if (facts.info && !facts.info->direct_io) {
      diagnosis->missing.push_back({fmt::format("direct I/O on '{}'", path),
                                    "a file system that has it (ext4, xfs, btrfs); until then "
                                    "reads go through the page cache"});
    }
  }
}

void add_missing(const char *what, const char *remedy, std::vector<Missing> *missing) {
  if (*remedy != '\0') missing->push_back({what, remedy});
}

Missing missing_driver(const std::string &status) {
  if (status == sluice_status_name(SLUICE_NO_DEVICE)) return {"a GPU", kNoGpuRemedy};
  if (status == sluice_status_name(SLUICE_DRIVER_TOO_OLD)) {
    return {"a newer CUDA driver", "install NVIDIA's driver for CUDA 11.8 or newer"};
  }
  return {"a CUDA driver",
          "install NVIDIA's driver, or pass the GPU into the container; without a GPU, --driver "
          "emulated runs everything on emulated GPU memory"};
}

void collect_missing(const Request &request, Diagnosis *diagnosis) {
  std::vector<Missing> &missing = diagnosis->missing;
  const sluice_report &report = diagnosis->report;
  if (diagnosis->driver_failure) {
    missing.push_back(missing_driver(diagnosis->driver_failure->status));
    if (request.device) diagnosis->failure = diagnosis->driver_failure;
  }
  add_missing("io_uring", report.io_uring_remedy, &missing);
  add_missing("locked memory", report.memlock_remedy, &missing);
  add_missing("huge pages", report.huge_pages_remedy, &missing);
}

Diagnosis diagnose(const Request &request) {
  Diagnosis diagnosis;
  const Runtime runtime = create_any_runtime(request, &diagnosis);
  check(sluice_report_get(runtime.get(), &diagnosis.report));
  collect_missing(request, &diagnosis);
  diagnose_devices(request, runtime, &diagnosis);
  diagnose_paths(request, runtime, &diagnosis);
  return diagnosis;
}

std::string link_text(const Link &link) {
  if (link.speed.empty() || link.width.empty()) return "link unknown";
  std::string text = fmt::format("PCIe link {} x{}", link.speed, link.width);
  if (!link.most_speed.empty() &&
      (link.most_speed != link.speed || link.most_width != link.width)) {
    text += fmt::format(" now, at most {} x{}", link.most_speed, link.most_width);
  }
  return text;
}

std::string device_text(const DeviceFacts &facts) {
  const std::string label = fmt::format("GPU {}", facts.ordinal);
  if (!facts.info) return row(label, facts.failure->what());
  const sluice_device_info &info = *facts.info;
  std::string text =
      fmt::format("{}, {} of VRAM, {} free, cap {}", info.name, human_size(info.total_bytes),
                  human_size(info.free_bytes), human_limit(info.limit_bytes));
  text += fmt::format(
      "\ncompute {}.{}, handles in steps of {}, {}, {}", info.compute_major, info.compute_minor,
      human_size(info.granularity_bytes), link_text(facts.link),
      info.numa_node < 0 ? "NUMA node unknown" : fmt::format("NUMA node {}", info.numa_node));
  text += fmt::format("\nbatched copies: {}; stream ids: {}; read-only host registration: {}{}",
                      info.copy_batches ? "yes" : "no", info.stream_ids ? "yes" : "no",
                      info.read_only_host_register ? "yes" : "no",
                      info.integrated ? "; shares the machine's RAM" : "");
  return row(label, text);
}

std::string driver_text(const Diagnosis &diagnosis) {
  if (diagnosis.driver_failure) return fmt::format("none: {}", diagnosis.driver_failure->what());
  if (diagnosis.report.driver_version == 0) return "none was asked for";
  return fmt::format("{}CUDA {}, {}", diagnosis.report.driver_emulated ? "emulated, " : "",
                     driver_version_text(diagnosis.report.driver_version),
                     diagnosis.report.driver_path);
}

std::string uring_text(const sluice_report &report) {
  std::string text = "no";
  if (report.io_uring) {
    text = fmt::format("yes; registered buffers: {}; registered files: {}",
                       report.io_uring_fixed_buffers ? "yes" : "no",
                       report.io_uring_fixed_files ? "yes" : "no");
  }
  if (*report.io_uring_reason != '\0') text += fmt::format("; {}", report.io_uring_reason);
  return text;
}

std::string machine_text(const sluice_report &report) {
  std::string container = "no limit";
  if (report.container_limit_bytes != UINT64_MAX) {
    container = fmt::format("limit of {}, {} used", human_size(report.container_limit_bytes),
                            human_size(report.container_used_bytes));
  }
  return row("system",
             fmt::format("{}, {}", report.kernel, counted(report.processors, "processor"))) +
         row("RAM", fmt::format("{}, {} available", human_size(report.ram_bytes),
                                human_size(report.ram_available_bytes))) +
         row("container", container) +
         row("pinned", fmt::format("at most {}: {}", human_limit(report.pinned_limit_bytes),
                                   report.pinned_limit_reason)) +
         row("memlock", report.memlock_limit_bytes == UINT64_MAX
                            ? "no limit"
                            : human_size(report.memlock_limit_bytes)) +
         row("io_uring", uring_text(report)) + row("huge pages", report.huge_pages);
}

std::string path_text(const PathFacts &facts) {
  const std::string path = printable(facts.path);
  if (!facts.info) return row("direct I/O", facts.failure->what());
  std::string text = fmt::format("{}: {}", path, facts.info->direct_io ? "yes" : "no");
  if (facts.info->direct_io) {
    text += fmt::format(", aligned to {} bytes", facts.info->direct_alignment);
  }
  text = row("direct I/O", fmt::format("{}; {}", text, facts.info->direct_io_reason));
  if (!facts.fast_disk) return text;
  return text + row("fast disk", fmt::format("{}: {}; {}", path, facts.fast_disk->on ? "on" : "off",
                                             facts.fast_disk->reason));
}

std::string diagnosis_text(const Diagnosis &diagnosis) {
  std::string text = row("driver", driver_text(diagnosis));
  for (const DeviceFacts &facts : diagnosis.devices) text += device_text(facts);
  text += machine_text(diagnosis.report);
  for (const PathFacts &facts : diagnosis.paths) text += path_text(facts);
  text +=
      diagnosis.missing.empty() ? "\nNothing is missing.\n" : "\nMissing, and what enables it:\n";
  for (const Missing &missing : diagnosis.missing) {
    text += row("", fmt::format("{}: {}", missing.what, missing.remedy));
  }
  return text;
}

Json text_or_null(const std::string &text) { return json_or_null(text.c_str()); }

Json device_json(const DeviceFacts &facts) {
  if (!facts.info) return {{"ordinal", facts.ordinal}, {"error", error_json(*facts.failure)}};
  const sluice_device_info &info = *facts.info;
  return {{"ordinal", info.ordinal},
          {"name", info.name},
          {"pci_bus_id", json_or_null(info.pci_bus_id)},
          {"compute", fmt::format("{}.{}", info.compute_major, info.compute_minor)},
          {"total_bytes", info.total_bytes},
          {"free_bytes", info.free_bytes},
          {"limit_bytes", json_or_null(info.limit_bytes)},
          {"granularity_bytes", info.granularity_bytes},
          {"numa_node", info.numa_node < 0 ? Json() : Json(info.numa_node)},
          {"link",
           {{"speed", text_or_null(facts.link.speed)},
            {"width", text_or_null(facts.link.width)},
            {"max_speed", text_or_null(facts.link.most_speed)},
            {"max_width", text_or_null(facts.link.most_width)}}},
          {"integrated", info.integrated},
          {"copy_batches", info.copy_batches},
          {"stream_ids", info.stream_ids},
          {"read_only_host_register", info.read_only_host_register}};
}

Json fast_disk_json(const sluice_fast_disk_info &info) {
  return {{"on", info.on},
          {"model_bytes", info.model_bytes},
          {"ram_room_bytes", info.ram_room_bytes},
          {"disk_bytes_per_s", info.disk_bytes_per_s},
          {"ram_bytes_per_s", info.ram_bytes_per_s},
          {"reason", info.reason}};
}

Json path_json(const PathFacts &facts) {
  if (!facts.info) return {{"path", facts.path}, {"error", error_json(*facts.failure)}};
  Json json = {{"path", facts.path},
               {"temporary_file", facts.temporary},
               {"direct_io", facts.info->direct_io},
               {"direct_alignment", facts.info->direct_alignment},
               {"reason", facts.info->direct_io_reason}};
  if (facts.fast_disk) json["fast_disk"] = fast_disk_json(*facts.fast_disk);
  return json;
}

void add_machine(const sluice_report &report, Json *json) {
  (*json)["kernel"] = report.kernel;
  (*json)["processors"] = report.processors;
  (*json)["ram"] = {{"bytes", report.ram_bytes}, {"available_bytes", report.ram_available_bytes}};
  (*json)["container"] = {{"limit_bytes", json_or_null(report.container_limit_bytes)},
                          {"used_bytes", report.container_used_bytes}};
  (*json)["pinned"] = {{"limit_bytes", json_or_null(report.pinned_limit_bytes)},
                       {"reason", report.pinned_limit_reason}};
  (*json)["memlock"] = {{"limit_bytes", json_or_null(report.memlock_limit_bytes)}};
  (*json)["io_uring"] = {{"works", report.io_uring},
                         {"fixed_buffers", report.io_uring_fixed_buffers},
                         {"fixed_files", report.io_uring_fixed_files},
                         {"reason", report.io_uring_reason}};
  (*json)["huge_pages"] = report.huge_pages;
}

Json diagnosis_json(const Diagnosis &diagnosis) {
  const bool has_driver = !diagnosis.driver_failure && diagnosis.report.driver_version != 0;
  Json json = {{"driver", nullptr}};
  if (has_driver) add_driver(diagnosis.report, &json);
  if (diagnosis.driver_failure) json["driver_error"] = error_json(*diagnosis.driver_failure);
  json["devices"] = Json::array();
  for (const DeviceFacts &facts : diagnosis.devices) json["devices"].push_back(device_json(facts));
  add_machine(diagnosis.report, &json);
  json["paths"] = Json::array();
  for (const PathFacts &facts : diagnosis.paths) json["paths"].push_back(path_json(facts));
  json["missing"] = Json::array();
  for (const Missing &missing : diagnosis.missing) {
    json["missing"].push_back({{"what", missing.what}, {"remedy", missing.remedy}});
  }
  return json;
}

}  // namespace

int run_doctor(const Request &request) {
  const Diagnosis diagnosis = diagnose(request);
  if (!request.json) {
    write_stdout(diagnosis_text(diagnosis));
    if (diagnosis.failure) throw Failure(*diagnosis.failure);
    return kExitDone;
  }
  Json json = diagnosis_json(diagnosis);
  if (diagnosis.failure) {
    json["error"] = error_json(*diagnosis.failure);
    write_stderr(fmt::format("sluice: {}\n", printable(diagnosis.failure->what())));
  }
  write_json(json);
  return diagnosis.failure ? kExitFailed : kExitDone;
}

}  // namespace program

// What the machine and its devices offer, found by trying; for `doctor` and its like.
#include "io/reader.h"
#include "runtime/c_api.h"
#include "runtime/device.h"

using namespace sluice;

namespace {

void report_driver(const Driver &driver, sluice_report &report) {
  report.driver_version = driver.version();
  report.driver_emulated = driver.emulated();
  copy_text(report.driver_path, driver.path());
  int count = 0;
  if (driver.table().cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0)
    report.device_count = static_cast<uint32_t>(count);
}

void report_memory(Runtime &runtime, const SystemFacts &facts, sluice_report &report) {
  report.processors = facts.processors;
  report.ram_bytes = facts.ram_bytes;
  report.ram_available_bytes = facts.ram_available_bytes;
  report.container_limit_bytes = facts.container_limit_bytes;
  report.container_used_bytes = facts.container_used_bytes;
  report.memlock_limit_bytes = facts.memlock_limit_bytes;
  report.pinned_limit_bytes = runtime.pinned().limit();
  copy_text(report.pinned_limit_reason, runtime.pinned_reason());
  copy_text(report.kernel, facts.kernel);
  copy_text(report.huge_pages, facts.huge_pages);
  if (facts.huge_pages == "never" || facts.huge_pages == "absent")
    copy_text(report.huge_pages_remedy,
              "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

void report_uring(Runtime &runtime, sluice_report &report) {
  const AsyncQueueFacts facts = probe_async_queue(runtime);
  report.io_uring = facts.works;
  report.io_uring_fixed_buffers = facts.fixed_buffers;
  report.io_uring_fixed_files = facts.fixed_files;
  copy_text(report.io_uring_reason, facts.reason);
  copy_text(report.io_uring_remedy, facts.remedy);
}

Status fill_facts(Device &device, sluice_device_info &info) {
  const DeviceFacts &facts = device.facts();
  info.ordinal = device.ordinal();
  copy_text(info.name, facts.name);
  copy_text(info.pci_bus_id, facts.pci_bus_id);
  std::copy(std::begin(facts.uuid), std::end(facts.uuid), std::begin(info.uuid));
  info.compute_major = facts.compute_major;
  info.compute_minor = facts.compute_minor;
  info.total_bytes = facts.total_bytes;
  info.granularity_bytes = facts.granularity_bytes;
  info.numa_node = facts.numa_node;
  info.integrated = facts.integrated;
  info.read_only_host_register = facts.read_only_host_register;
  info.copy_batches = device.cuda().cuMemcpyBatchAsync != nullptr;
  info.stream_ids = device.cuda().cuStreamGetId != nullptr;
  SLUICE_ASSIGN(auto scope, DriverScope::enter(device));
  size_t free = 0, total = 0;
  SLUICE_CUDA(device.driver(), cuMemGetInfo, facts.name, &free, &total);
  info.free_bytes = free;
  return {};
}

void fill_use(Device &device, sluice_device_info &info) {
  info.limit_bytes = device.vram().limit();
  info.used_bytes = device.vram().used();
  info.peak_bytes = device.vram().peak();
  if (Reader *reader = device.existing_part<Reader>()) {
    info.ring_bytes = reader->ring().memory().size();
    info.ring_slots = reader->ring().slot_count();
    info.io_workers = reader->worker_count();
  }
}

}  // namespace

extern "C" {

sluice_status sluice_report_get(sluice_runtime *runtime, sluice_report *out_report) {
  return fill_struct(runtime, "runtime", out_report, "out_report",
                     [](sluice_runtime &from, sluice_report &report) -> Status {
                       Runtime &inner = *from.runtime;
                       if (inner.driver()) report_driver(*inner.driver(), report);
                       report_memory(inner, system_facts(), report);
                       report_uring(inner, report);
                       return {};
                     });
}

sluice_status sluice_device_info_get(sluice_device *device, sluice_device_info *out_info) {
  return fill_struct(device, "device", out_info, "out_info",
                     [](sluice_device &from, sluice_device_info &info) -> Status {
                       SLUICE_TRY(fill_facts(*from.device, info));
                       fill_use(*from.device, info);
                       return {};
                     });
}

}  // extern "C"

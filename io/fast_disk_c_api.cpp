// Whether a checkpoint's weights may leave RAM, in the C API.
#include "io/checkpoint.h"
#include "io/rate_probe.h"
#include "runtime/c_api.h"

namespace sluice {
namespace {

std::vector<File *> files_of(const Checkpoint &checkpoint) {
  std::vector<File *> files;
  for (const Checkpoint::Shard &shard : checkpoint.shards()) files.push_back(shard.file.get());
  return files;
}

Result<SourceRates> measure(Device &device, const Checkpoint &checkpoint) {
  SLUICE_ASSIGN(auto scope, DriverScope::enter(device));
  SLUICE_ASSIGN(const auto probe, RateProbe::create(device));
  SourceRates rates;
  SLUICE_ASSIGN(rates.ram, probe->from_ram());
  SLUICE_ASSIGN(rates.disk, probe->from_disk(files_of(checkpoint)));
  return rates;
}

Status ask(sluice_checkpoint &handle, Device &device, sluice_fast_disk_info &info) {
  const Checkpoint &checkpoint = *handle.checkpoint;
  FastDiskQuestion question;
  question.asked = device.runtime().options().fast_disk;
  question.model_bytes = checkpoint.data_bytes();
  question.ram_room_bytes = default_pinned_limit(system_facts()).bytes;
  question.rates = handle.fast_disk.rates(device.ordinal());
  FastDiskAnswer answer = decide_fast_disk(question);
  if (answer.needs_rates) {
    SLUICE_ASSIGN(question.rates, measure(device, checkpoint));
    handle.fast_disk.set_rates(device.ordinal(), *question.rates);
    answer = decide_fast_disk(question);
  }
  handle.fast_disk.note(device.log(), checkpoint.shards().front().path, answer);
  info.asked = static_cast<uint32_t>(question.asked);
  info.on = answer.on;
  info.model_bytes = question.model_bytes;
  info.ram_room_bytes = question.ram_room_bytes;
  const SourceRates rates = question.rates.value_or(SourceRates{});
  info.disk_bytes_per_s = static_cast<uint64_t>(rates.disk);
  info.ram_bytes_per_s = static_cast<uint64_t>(rates.ram);
  copy_text(info.reason, answer.reason);
  return {};
}

}  // namespace
}  // namespace sluice

using namespace sluice;

extern "C" sluice_status sluice_checkpoint_fast_disk(sluice_checkpoint *checkpoint,
                                                     sluice_device *device,
                                                     sluice_fast_disk_info *out_info) {
  return fill_struct(checkpoint, "checkpoint", out_info, "out_info",
                     [device](sluice_checkpoint &from, sluice_fast_disk_info &info) -> Status {
                       SLUICE_TRY(need(device, "device"));
                       return ask(from, *device->device, info);
                     });
}

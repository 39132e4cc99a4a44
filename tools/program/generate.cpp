// sluice generate: a valid checkpoint of pseudo-random data, in either format.
//
// Three stages: plan (names, shapes, sizes; the same for the same options), write (each file under
// a temporary name, its data by several threads), publish (rename). Data depends on the seed and
// the place in the checkpoint only, not on the number of threads or files.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/program/commands.h"
#include "tools/program/failure.h"
#include "tools/program/files.h"
#include "tools/program/generate_format.h"
#include "tools/program/interrupt.h"
#include "tools/program/new_file.h"
#include "tools/program/output.h"
#include "tools/program/progress.h"

namespace program {
namespace {

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
constexpr unsigned kMostWorkers = 8;
constexpr uint64_t kOddTensorsNeeded = 8;  // for the empty and the one-element tensor

// xoshiro256**, seeded by splitmix64: https://prng.di.unimi.it
class Random {
 public:
  explicit Random(uint64_t seed) {
    for (uint64_t &word : state_) word = split_mix(&seed);
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

 private:
  static uint64_t split_mix(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  std::array<uint64_t, 4> state_{};
};

// What a type is counted in: elements, or the blocks of a quantised type.
struct Unit {
  uint32_t elements = 0;
  uint32_t bytes = 0;
};

Unit unit_of(const GenerateRequest &request) {
  Unit unit;
  sluice_type_block(request.type, &unit.elements, &unit.bytes);
  return unit;
}

// Clears the highest exponent bit of each element: all numbers are finite, magnitudes below 2.
uint64_t finite_mask(sluice_type type) {
  if (type == SLUICE_TYPE_F16 || type == SLUICE_TYPE_BF16) return 0xbfffbfffbfffbfff;
  if (type == SLUICE_TYPE_F32) return 0xbfffffffbfffffff;
  return UINT64_MAX;
}

// ---- Plan ----------------------------------------------------------------------------------

// Tensors in front of the blocks and behind them (an embedding, a norm or head): up to two, as
// far as the count leaves any after an equal share for each block.
std::vector<std::string> tensor_names(const GenerateRequest &request) {
  std::vector<std::string> names;
  names.reserve(request.tensors);
  if (request.blocks == 0) {
    for (uint64_t i = 0; i < request.tensors; ++i) names.push_back(fmt::format("tensor_{}", i));
    return names;
  }
  const uint64_t per_block = request.tensors / request.blocks;
  const uint64_t outside = request.tensors - per_block * request.blocks;
  if (outside > 0) names.push_back(tensor_name(request.format, kNoBlock, 0));
  for (uint64_t block = 0; block < request.blocks; ++block) {
    for (uint64_t i = 0; i < per_block; ++i) {
      names.push_back(tensor_name(request.format, block, i));
    }
  }
  for (uint64_t i = 1; i < outside; ++i) names.push_back(tensor_name(request.format, kNoBlock, i));
  return names;
}

// Equal tensors, of whole rows where they are large enough; one takes the rest: the last, or with
// blocks the first (the embedding).
std::vector<uint64_t> even_units(const GenerateRequest &request, uint64_t total) {
  const uint64_t row = kRowElements / unit_of(request).elements;
  uint64_t share = total / request.tensors;
  if (share >= row) share -= share % row;
  std::vector<uint64_t> units(request.tensors, share);
  uint64_t &rest = request.blocks == 0 ? units.back() : units.front();
  rest = total - share * (request.tensors - 1);
  return units;
}

// Each tensor gets an odd count between 1 and twice its share; the last one takes the rest, and
// what it lacks of an odd count stays away.
std::vector<uint64_t> odd_units(const GenerateRequest &request, uint64_t total) {
  Random random(~request.seed);
  std::vector<uint64_t> units(request.tensors);
  uint64_t left = total;
  for (uint64_t i = 0; i < request.tensors; ++i) {
    const uint64_t after = request.tensors - i - 1;  // tensors that need one each
    const uint64_t share = (left - after) / (after + 1);
    uint64_t count = after == 0 ? left : 1 + random.next() % (2 * std::max<uint64_t>(share, 1));
    count = std::min(count, left - after);
    if (request.tensors >= kOddTensorsNeeded && i == 3) count = 1;
    if (count % 2 == 0) --count;
    units[i] = count;
    left -= count;
  }
  if (request.tensors >= kOddTensorsNeeded) {
    units[6] += units[5] - units[5] % 2;  // stays odd
    left += units[5] % 2;
    units[5] = 0;
  }
  units.back() += left / 2 * 2;
  return units;
}

std::vector<PlannedTensor> plan_tensors(const GenerateRequest &request) {
  const Unit unit = unit_of(request);
  const uint64_t total = request.size_bytes / unit.bytes;
  if (total < request.tensors) {
    throw UsageError(fmt::format("--size {}: too small for {} of {}", request.size_bytes,
                                 counted(request.tensors, "tensor"),
                                 sluice_type_name(request.type)));
  }
  if (request.blocks > request.tensors) {
    throw UsageError(fmt::format("--blocks {}: more than there are tensors ({})", request.blocks,
                                 request.tensors));
  }
  if (std::max<uint64_t>(request.shards, 1) > request.tensors) {
    throw UsageError(fmt::format("--shards {}: more than there are tensors ({})", request.shards,
                                 request.tensors));
  }
  const std::vector<std::string> names = tensor_names(request);
  const std::vector<uint64_t> units =
      request.odd ? odd_units(request, total) : even_units(request, total);
  std::vector<PlannedTensor> tensors(request.tensors);
  for (size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = {names[i], units[i] * unit.elements, units[i] * unit.bytes, 0};
  }
  return tensors;
}

// A tensor with the padding behind it.
uint64_t padded_bytes(const GenerateRequest &request, const PlannedTensor &tensor) {
  const uint64_t alignment = data_alignment(request.format);
  return (tensor.bytes + alignment - 1) / alignment * alignment;
}

// Consecutive tensors; each file takes its share of the bytes and leaves one tensor for each of
// the files behind it. Gives each tensor its offset.
std::vector<PlannedFile> plan_files(const GenerateRequest &request,
                                    std::vector<PlannedTensor> *tensors) {
  const uint32_t count = std::max<uint32_t>(request.shards, 1);
  uint64_t left = 0;
  for (const PlannedTensor &tensor : *tensors) left += padded_bytes(request, tensor);
  std::vector<PlannedFile> files(count);
  size_t next = 0;
  uint64_t start = 0;
  for (uint32_t i = 0; i < count; ++i) {
    PlannedFile &file = files[i];
    const uint64_t share = left / (count - i);
    const size_t end = tensors->size() - (count - i - 1);
    file.name = shard_name(request.format, i, count);
    file.first_tensor = next;
    file.data_start = start;
    do {
      PlannedTensor &tensor = (*tensors)[next++];
      tensor.offset = file.data_bytes;
      file.data_bytes += padded_bytes(request, tensor);
    } while (next < end && (i + 1 == count || file.data_bytes < share));
    file.end_tensor = next;
    left -= file.data_bytes;
    start += file.data_bytes;
  }
  return files;
}

// ---- Check ---------------------------------------------------------------------------------

std::string shown_folder(const std::string &path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

// Better said before gigabytes are written than after.
void check_room(const std::string &folder, uint64_t bytes) {
  const std::optional<uint64_t> room = room_in(folder);
  // Where that can't be told, making the file says what is wrong.
  if (room && bytes > *room)
    throw system_failure(fmt::format("'{}' has room for {}, and {} are to be written", folder,
                                     human_size(*room), human_size(bytes)),
                         "statvfs", ENOSPC);
}

bool is_of_a_checkpoint(const std::string &name) {
  return name.ends_with(".safetensors") || name.ends_with(".gguf") || name == kIndexName;
}

// Shards of another checkpoint would lie beside the new ones, in no index; or hide them.
void check_strangers(const GenerateRequest &request, const std::string &folder,
                     const std::vector<PlannedFile> &files) {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = std::any_of(files.begin(), files.end(),
                                  [&](const PlannedFile &file) { return file.name == name; });
    const bool our_index = request.format != SLUICE_FORMAT_GGUF && name == kIndexName;
    if (!ours && !our_index && is_of_a_checkpoint(name))
      throw Failure(sluice_status_name(SLUICE_INVALID_STATE),
                    fmt::format("'{}' holds '{}', which isn't part of this checkpoint: name "
                                "another folder, or remove it first",
                                folder, name));
  }
}

// ---- Write ---------------------------------------------------------------------------------

// Chunks are counted over the data of the whole checkpoint; a file's first and last may be parts.
class DataWriter {
 public:
  DataWriter(const GenerateRequest &request, const PlannedFile &plan, const NewFile &file,
             uint64_t header_bytes, Progress *progress, uint64_t total_bytes)
      : request_(request),
        plan_(plan),
        file_(file),
        header_bytes_(header_bytes),
        progress_(progress),
        total_bytes_(total_bytes),
        next_(plan.data_start / kChunkBytes) {}

  void run() {
    const uint64_t chunks = plan_.data_bytes / kChunkBytes + 1;
    const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1U, kMostWorkers);
    std::vector<std::jthread> threads;
    for (unsigned i = 1; i < std::min<uint64_t>(workers, chunks); ++i) {
      threads.emplace_back([this] { work(); });
    }
    work();
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
    stop_if_interrupted();
  }

 private:
  void work() {
    try {
      std::vector<uint64_t> words(kChunkBytes / sizeof(uint64_t));
      while (!failed_.load() && interrupted() == 0 && write_chunk(next_++, &words)) {
      }
    } catch (...) {
      const std::scoped_lock lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_.store(true);
    }
  }

  // False: the chunk lies past the file's data.
  bool write_chunk(uint64_t chunk, std::vector<uint64_t> *words) {
    const uint64_t end = plan_.data_start + plan_.data_bytes;
    const uint64_t from = std::max(chunk * kChunkBytes, plan_.data_start);
    const uint64_t to = std::min((chunk + 1) * kChunkBytes, end);
    if (from >= to) return false;
    Random random(request_.seed ^ (chunk * 0xd1342543de82ef95));
    const uint64_t mask = finite_mask(request_.type);
    for (uint64_t &word : *words) word = random.next() & mask;
    const char *data = reinterpret_cast<const char *>(words->data()) + from % kChunkBytes;
    file_.write(data, to - from, header_bytes_ + from - plan_.data_start);
    progress_->update(to, total_bytes_);
    return true;
  }

  const GenerateRequest &request_;
  const PlannedFile &plan_;
  const NewFile &file_;
  const uint64_t header_bytes_;
  Progress *progress_;
  const uint64_t total_bytes_;
  std::atomic<uint64_t> next_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr failure_;  // guarded by mutex_
};

// ---- Publish -------------------------------------------------------------------------------

// A folder that is removed again unless all went well, if it was made here.
class TargetFolder {
 public:
  explicit TargetFolder(const std::string &path) : path_(path) {
    std::error_code error;
    made_ = std::filesystem::create_directory(path, error);
    if (error) {
      throw system_failure(fmt::format("creating the folder '{}' failed", path), "mkdir",
                           error.default_error_condition().value());
    }
  }
  ~TargetFolder() {
    if (made_) remove_folder(path_);
  }
  TargetFolder(const TargetFolder &) = delete;
  TargetFolder &operator=(const TargetFolder &) = delete;

  void keep() { made_ = false; }

 private:
  std::string path_;
  bool made_ = false;
};

std::string trimmed_path(std::string path) {
  while (path.size() > 1 && ends_with_separator(path)) path.pop_back();
  return path;
}

// Zeros behind each tensor that doesn't end where the next one begins.
void write_padding(const GenerateRequest &request, const PlannedFile &plan,
                   const std::vector<PlannedTensor> &tensors, const NewFile &file,
                   uint64_t header_bytes) {
  const std::string zeros(data_alignment(request.format), '\0');
  for (size_t i = plan.first_tensor; i < plan.end_tensor; ++i) {
    const uint64_t padding = padded_bytes(request, tensors[i]) - tensors[i].bytes;
    file.write(zeros.data(), padding, header_bytes + tensors[i].offset + tensors[i].bytes);
  }
}

void write_file(const GenerateRequest &request, size_t index, const std::vector<PlannedFile> &files,
                const std::vector<PlannedTensor> &tensors, NewFile *file, Progress *progress) {
  const PlannedFile &plan = files[index];
  const std::string header = header_of(request, index, files, tensors);
  const uint64_t total = files.back().data_start + files.back().data_bytes;
  file->write(header.data(), header.size(), 0);
  DataWriter(request, plan, *file, header.size(), progress, total).run();
  write_padding(request, plan, tensors, *file, header.size());
  file->close();
}

void generate_file(const GenerateRequest &request, const std::vector<PlannedTensor> &tensors,
                   const std::vector<PlannedFile> &files) {
  const std::string &path = request.path;
  std::error_code ignored;
  if (ends_with_separator(path) || std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("'{}' is a folder: name a file, or give --shards", path));
  }
  check_room(shown_folder(path), files.front().data_bytes);
  Progress progress("writing");
  NewFile file(path);
  write_file(request, 0, files, tensors, &file, &progress);
  file.publish(true);
}

void generate_folder(const GenerateRequest &request, const std::vector<PlannedTensor> &tensors,
                     const std::vector<PlannedFile> &files) {
  const std::string path = trimmed_path(request.path);
  const uint64_t total = files.back().data_start + files.back().data_bytes;
  TargetFolder folder(path);
  check_strangers(request, path, files);
  check_room(path, total);
  Progress progress("writing");
  std::vector<NewFile> pending;
  for (size_t i = 0; i < files.size(); ++i) {
    pending.emplace_back(path + '/' + files[i].name);
    write_file(request, i, files, tensors, &pending.back(), &progress);
  }
  if (request.format != SLUICE_FORMAT_GGUF) {
    const std::string index = index_of(files, tensors);
    pending.emplace_back(path + '/' + kIndexName);
    pending.back().write(index.data(), index.size(), 0);
    pending.back().close();
  }
  folder.keep();
  for (NewFile &file : pending) file.publish(true);
}

void print_result(const GenerateRequest &request, bool json, uint64_t bytes, double seconds) {
  if (json) {
    write_json({{"path", request.path},
                {"bytes", bytes},
                {"tensors", request.tensors},
                {"shards", std::max<uint32_t>(request.shards, 1)},
                {"blocks", request.blocks},
                {"type", sluice_type_name(request.type)},
                {"format", format_name(request.format)},
                {"odd", request.odd},
                {"seed", request.seed},
                {"seconds", seconds},
                {"gb_per_s", gigabytes_per_second(bytes, seconds)}});
    return;
  }
  write_stdout(fmt::format("{}: {} of {}, {} in {:.3f} s: {:.2f} GB/s\n", printable(request.path),
                           counted(request.tensors, "tensor"), sluice_type_name(request.type),
                           human_size(bytes), seconds, gigabytes_per_second(bytes, seconds)));
}

}  // namespace

int run_generate(const Request &all) {
  const GenerateRequest &request = all.generate;
  check_type(request);
  const auto start = std::chrono::steady_clock::now();
  std::vector<PlannedTensor> tensors = plan_tensors(request);
  const std::vector<PlannedFile> files = plan_files(request, &tensors);
  if (request.shards == 0) {
    generate_file(request, tensors, files);
  } else {
    generate_folder(request, tensors, files);
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  uint64_t bytes = 0;
  for (const PlannedTensor &tensor : tensors) bytes += tensor.bytes;
  print_result(request, all.json, bytes, passed.count());
  return kExitDone;
}

}  // namespace program

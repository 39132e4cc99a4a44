// sluice generate: a valid safetensors checkpoint of pseudo-random data.
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
#include <cstring>
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
#include "tools/program/interrupt.h"
#include "tools/program/output.h"
#include "tools/program/owned_fd.h"
#include "tools/program/progress.h"
#include "tools/program/system.h"

namespace program {
namespace {

static_assert(std::endian::native == std::endian::little, "a safetensors header starts so");

constexpr uint64_t kChunkBytes = uint64_t{1} << 20;
constexpr unsigned kMostWorkers = 8;
constexpr uint64_t kRowElements = 1024;  // of the tensors that get two dimensions
constexpr uint64_t kHeaderAlignment = 8;
constexpr uint64_t kOddHeaderRest = 5;              // what an odd file's data start leaves modulo 8
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's bound
constexpr uint64_t kOddTensorsNeeded = 8;           // for the empty and the one-element tensor

struct PlannedTensor {
  std::string name;
  uint64_t elements = 0;
};

struct PlannedFile {
  std::string name;  // "model-00001-of-00004.safetensors"
  size_t first_tensor = 0;
  size_t end_tensor = 0;
  uint64_t data_start = 0;  // where its data begin in the data of the whole checkpoint
  uint64_t data_bytes = 0;
};

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

uint64_t element_bytes(const GenerateRequest &request) {
  return sluice_type_bits(request.type) / 8;
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
  if (outside > 0) names.emplace_back("model.embed_tokens.weight");
  for (uint64_t block = 0; block < request.blocks; ++block) {
    for (uint64_t i = 0; i < per_block; ++i) {
      names.push_back(fmt::format("model.layers.{}.part_{}.weight", block, i));
    }
  }
  for (uint64_t i = 1; i < outside; ++i) names.push_back(fmt::format("head_{}.weight", i));
  return names;
}

// Equal tensors, of whole rows where they are large enough; one takes the rest: the last, or with
// blocks the first (the embedding).
std::vector<uint64_t> even_elements(const GenerateRequest &request, uint64_t total) {
  uint64_t share = total / request.tensors;
  if (share >= kRowElements) share -= share % kRowElements;
  std::vector<uint64_t> elements(request.tensors, share);
  uint64_t &rest = request.blocks == 0 ? elements.back() : elements.front();
  rest = total - share * (request.tensors - 1);
  return elements;
}

// Each tensor gets an odd count between 1 and twice its share; the last one takes the rest, and
// what it lacks of an odd count stays away.
std::vector<uint64_t> odd_elements(const GenerateRequest &request, uint64_t total) {
  Random random(~request.seed);
  std::vector<uint64_t> elements(request.tensors);
  uint64_t left = total;
  for (uint64_t i = 0; i < request.tensors; ++i) {
    const uint64_t after = request.tensors - i - 1;  // tensors that need an element each
    const uint64_t share = (left - after) / (after + 1);
    uint64_t count = after == 0 ? left : 1 + random.next() % (2 * std::max<uint64_t>(share, 1));
    count = std::min(count, left - after);
    if (request.tensors >= kOddTensorsNeeded && i == 3) count = 1;
    if (count % 2 == 0) --count;
    elements[i] = count;
    left -= count;
  }
  if (request.tensors >= kOddTensorsNeeded) {
    elements[6] += elements[5] - elements[5] % 2;  // stays odd
    left += elements[5] % 2;
    elements[5] = 0;
  }
  elements.back() += left / 2 * 2;
  return elements;
}

std::vector<PlannedTensor> plan_tensors(const GenerateRequest &request) {
  const uint64_t total = request.size_bytes / element_bytes(request);
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
  const std::vector<uint64_t> elements =
      request.odd ? odd_elements(request, total) : even_elements(request, total);
  std::vector<PlannedTensor> tensors(request.tensors);
  for (size_t i = 0; i < tensors.size(); ++i) tensors[i] = {names[i], elements[i]};
  return tensors;
}

std::string shard_name(uint32_t index, uint32_t count) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

// Consecutive tensors; each file takes its share of the bytes and leaves one tensor for each of
// the files behind it.
std::vector<PlannedFile> plan_files(const GenerateRequest &request,
                                    const std::vector<PlannedTensor> &tensors) {
  const uint32_t count = std::max<uint32_t>(request.shards, 1);
  const uint64_t width = element_bytes(request);
  uint64_t left = 0;
  for (const PlannedTensor &tensor : tensors) left += tensor.elements * width;
  std::vector<PlannedFile> files(count);
  size_t next = 0;
  uint64_t start = 0;
  for (uint32_t i = 0; i < count; ++i) {
    PlannedFile &file = files[i];
    const uint64_t share = left / (count - i);
    const size_t end = tensors.size() - (count - i - 1);
    file.name = shard_name(i, count);
    file.first_tensor = next;
    file.data_start = start;
    do {
      file.data_bytes += tensors[next++].elements * width;
    } while (next < end && (i + 1 == count || file.data_bytes < share));
    file.end_tensor = next;
    left -= file.data_bytes;
    start += file.data_bytes;
  }
  return files;
}

std::string shape_of(uint64_t elements) {
  const bool rows = elements >= 2 * kRowElements && elements % kRowElements == 0;
  return rows ? fmt::format("[{},{}]", elements / kRowElements, kRowElements)
              : fmt::format("[{}]", elements);
}

// The header with its length in front, padded so that the data start is a multiple of 8, or is
// not one when that is asked for. Written by hand: names are plain ASCII.
std::string header_of(const GenerateRequest &request, const PlannedFile &file,
                      const std::vector<PlannedTensor> &tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  uint64_t offset = 0;
  for (size_t i = file.first_tensor; i < file.end_tensor; ++i) {
    const uint64_t bytes = tensors[i].elements * element_bytes(request);
    json += fmt::format(R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})",
                        tensors[i].name, sluice_type_name(request.type),
                        shape_of(tensors[i].elements), offset, offset + bytes);
    offset += bytes;
  }
  json += '}';
  const uint64_t rest = request.odd ? kOddHeaderRest : 0;
  while (json.size() % kHeaderAlignment != rest) json += ' ';
  if (json.size() > kMostHeaderBytes) {
    throw UsageError(
        fmt::format("--tensors {}: the header would have {} bytes, the format allows "
                    "{}; take more --shards",
                    request.tensors, json.size(), kMostHeaderBytes));
  }
  const uint64_t length = json.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + json;
}

std::string index_of(const std::vector<PlannedFile> &files,
                     const std::vector<PlannedTensor> &tensors) {
  const uint64_t total = files.back().data_start + files.back().data_bytes;
  std::string json = fmt::format("{{\"metadata\":{{\"total_size\":{}}},\"weight_map\":{{", total);
  const char *separator = "\n";
  for (const PlannedFile &file : files) {
    for (size_t i = file.first_tensor; i < file.end_tensor; ++i) {
      json += fmt::format(R"({}"{}":"{}")", separator, tensors[i].name, file.name);
      separator = ",\n";
    }
  }
  return json + "}}\n";
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

// Shards of another checkpoint would lie beside the new ones, in no index.
void check_strangers(const std::string &folder, const std::vector<PlannedFile> &files) {
  std::error_code ignored;
  for (const auto &entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool ours = std::any_of(files.begin(), files.end(),
                                  [&](const PlannedFile &file) { return file.name == name; });
    if (!ours && name.ends_with(".safetensors"))
      throw Failure(sluice_status_name(SLUICE_INVALID_STATE),
                    fmt::format("'{}' holds '{}', which isn't part of this checkpoint: name "
                                "another folder, or remove it first",
                                folder, name));
  }
}

// ---- Write ---------------------------------------------------------------------------------

// A file that exists under a temporary name until it is published, and not at all otherwise.
class PendingFile {
 public:
  explicit PendingFile(std::string path)
      : path_(std::move(path)), temporary_(fmt::format("{}.{}.tmp", path_, process_number())) {
    fd_ = OwnedFd(open_to_write(temporary_));
    if (fd_.get() < 0)
      throw system_failure(fmt::format("creating '{}' failed", path_), "open", errno);
  }
  PendingFile(PendingFile &&other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        fd_(std::move(other.fd_)) {}
  PendingFile &operator=(PendingFile &&) = delete;
  ~PendingFile() {
    if (!temporary_.empty()) remove_file(temporary_);
  }

  // Threads: any.
  void write(const char *data, uint64_t bytes, uint64_t offset) const {
    while (bytes != 0) {
      const int64_t count = write_at(fd_.get(), data, bytes, offset);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) throw write_failure("pwrite", offset, errno);
      data += count;
      offset += static_cast<uint64_t>(count);
      bytes -= static_cast<uint64_t>(count);
    }
  }

  // Some file systems say only here that there is no room.
  void finish(uint64_t bytes) {
    if (fd_.close() != 0) throw write_failure("close", bytes, errno);
  }

  void publish() {
    if (rename_file(temporary_, path_) != 0) {
      throw system_failure(fmt::format("naming the finished file '{}' failed", path_), "rename",
                           errno);
    }
    temporary_.clear();
  }

 private:
  [[nodiscard]] Failure write_failure(const char *call, uint64_t offset, int error) const {
    return system_failure(fmt::format("writing '{}' failed after {}; nothing of it was kept", path_,
                                      human_size(offset)),
                          call, error);
  }

  std::string path_;
  std::string temporary_;
  OwnedFd fd_;
};

// Chunks are counted over the data of the whole checkpoint; a file's first and last may be parts.
class DataWriter {
 public:
  DataWriter(const GenerateRequest &request, const PlannedFile &plan, const PendingFile &file,
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
  const PendingFile &file_;
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
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void write_file(const GenerateRequest &request, const PlannedFile &plan,
                const std::vector<PlannedTensor> &tensors, PendingFile *file, Progress *progress,
                uint64_t total_bytes) {
  const std::string header = header_of(request, plan, tensors);
  file->write(header.data(), header.size(), 0);
  DataWriter(request, plan, *file, header.size(), progress, total_bytes).run();
  file->finish(header.size() + plan.data_bytes);
}

void generate_file(const GenerateRequest &request, const std::vector<PlannedTensor> &tensors,
                   const std::vector<PlannedFile> &files) {
  const std::string &path = request.path;
  std::error_code ignored;
  if (path.ends_with('/') || std::filesystem::is_directory(path, ignored)) {
    throw UsageError(fmt::format("'{}' is a folder: name a file, or give --shards", path));
  }
  check_room(shown_folder(path), files.front().data_bytes);
  Progress progress("writing");
  PendingFile file(path);
  write_file(request, files.front(), tensors, &file, &progress, files.front().data_bytes);
  file.publish();
}

void generate_folder(const GenerateRequest &request, const std::vector<PlannedTensor> &tensors,
                     const std::vector<PlannedFile> &files) {
  const std::string path = trimmed_path(request.path);
  const uint64_t total = files.back().data_start + files.back().data_bytes;
  TargetFolder folder(path);
  check_strangers(path, files);
  check_room(path, total);
  Progress progress("writing");
  std::vector<PendingFile> pending;
  for (const PlannedFile &plan : files) {
    pending.emplace_back(path + '/' + plan.name);
    write_file(request, plan, tensors, &pending.back(), &progress, total);
  }
  const std::string index = index_of(files, tensors);
  pending.emplace_back(path + "/model.safetensors.index.json");
  pending.back().write(index.data(), index.size(), 0);
  pending.back().finish(index.size());
  folder.keep();
  for (PendingFile &file : pending) file.publish();
}

void print_result(const GenerateRequest &request, bool json, uint64_t bytes, double seconds) {
  if (json) {
    write_json({{"path", request.path},
                {"bytes", bytes},
                {"tensors", request.tensors},
                {"shards", std::max<uint32_t>(request.shards, 1)},
                {"blocks", request.blocks},
                {"type", sluice_type_name(request.type)},
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
  const auto start = std::chrono::steady_clock::now();
  const std::vector<PlannedTensor> tensors = plan_tensors(request);
  const std::vector<PlannedFile> files = plan_files(request, tensors);
  if (request.shards == 0) {
    generate_file(request, tensors, files);
  } else {
    generate_folder(request, tensors, files);
  }
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  const uint64_t bytes = files.back().data_start + files.back().data_bytes;
  print_result(request, all.json, bytes, passed.count());
  return kExitDone;
}

}  // namespace program

#include "tools/program/generate_format.h"

#include <bit>
#include <cstring>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "tools/program/failure.h"

namespace program {
namespace {

static_assert(std::endian::native == std::endian::little, "both formats are little-endian");

constexpr uint64_t kHeaderAlignment = 8;
constexpr uint64_t kOddHeaderRest = 5;              // what an odd file's data start leaves modulo 8
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the bound of safetensors
constexpr uint64_t kGgufAlignment = 32;

// A number as it lies in a file.
template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

UsageError too_long(const GenerateRequest &request, uint64_t bytes) {
  return UsageError(
      fmt::format("--tensors {}: the header would have {} bytes, and {} are allowed; "
                  "take more --shards",
                  request.tensors, bytes, kMostHeaderBytes));
}

// ---- safetensors

std::string shape_of(uint64_t elements) {
  const bool rows = elements >= 2 * kRowElements && elements % kRowElements == 0;
  return rows ? fmt::format("[{},{}]", elements / kRowElements, kRowElements)
              : fmt::format("[{}]", elements);
}

// The header with its length in front, padded so that the data start is a multiple of 8, or is
// not one when that is asked for. Written by hand: names are plain ASCII.
std::string safetensors_header(const GenerateRequest &request, const PlannedFile &file,
                               const std::vector<PlannedTensor> &tensors) {
  std::string json = R"({"__metadata__":{"format":"pt"})";
  for (size_t i = file.first_tensor; i < file.end_tensor; ++i) {
    const PlannedTensor &tensor = tensors[i];
    json += fmt::format(R"(,"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", tensor.name,
                        sluice_type_name(request.type), shape_of(tensor.elements), tensor.offset,
                        tensor.offset + tensor.bytes);
  }
  json += '}';
  const uint64_t rest = request.odd ? kOddHeaderRest : 0;
  while (json.size() % kHeaderAlignment != rest) json += ' ';
  if (json.size() > kMostHeaderBytes) throw too_long(request, json.size());
  return bytes_of<uint64_t>(json.size()) + json;
}

// ---- GGUF

// Kinds of values.
constexpr uint32_t kUint16 = 2, kUint32 = 4, kInt32 = 5, kString = 8;
constexpr uint32_t kQuantizationVersion = 2;

std::optional<uint32_t> ggml_type(sluice_type type) {
  switch (type) {
    case SLUICE_TYPE_F32:
      return 0;
    case SLUICE_TYPE_F16:
      return 1;
    case SLUICE_TYPE_I8:
      return 24;
    case SLUICE_TYPE_BF16:
      return 30;
    default:
      break;
  }
  constexpr uint32_t kNumbers[] = {2,  3,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23, 29, 34, 35, 39, 40, 41};
  size_t i = 0;
#define PROGRAM_COUNT(name, number, elements, bytes, text) \
  if (type == SLUICE_TYPE_##name) return kNumbers[i];      \
  ++i;
  SLUICE_BLOCK_TYPE_LIST(PROGRAM_COUNT)
#undef PROGRAM_COUNT
  return {};
}

std::string gguf_text(std::string_view text) {
  return bytes_of<uint64_t>(text.size()) + std::string(text);
}

std::string gguf_tensor(const PlannedTensor &tensor, uint32_t type) {
  const bool rows = tensor.elements >= 2 * kRowElements && tensor.elements % kRowElements == 0;
  std::string info = gguf_text(tensor.name) + bytes_of<uint32_t>(rows ? 2 : 1);
  if (rows) info += bytes_of(kRowElements);
  info += bytes_of<uint64_t>(rows ? tensor.elements / kRowElements : tensor.elements);
  return info + bytes_of(type) + bytes_of(tensor.offset);
}

// The keys, and how many there are.
class GgufKeys {
 public:
  template <typename Number>
  void add(std::string_view name, uint32_t kind, Number number) {
    append(name, kind, bytes_of(number));
  }
  void add(std::string_view name, std::string_view text) { append(name, kString, gguf_text(text)); }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] const std::string &bytes() const { return bytes_; }

 private:
  void append(std::string_view name, uint32_t kind, const std::string &value) {
    bytes_ += gguf_text(name) + bytes_of(kind) + value;
    ++count_;
  }
  std::string bytes_;
  uint64_t count_ = 0;
};

GgufKeys gguf_keys(const GenerateRequest &request, size_t index, size_t files, size_t tensors) {
  GgufKeys keys;
  keys.add("general.architecture", "generated");
  keys.add("general.alignment", kUint32, static_cast<uint32_t>(kGgufAlignment));
  if (sluice_type_bits(request.type) == 0) {
    keys.add("general.quantization_version", kUint32, kQuantizationVersion);
  }
  if (request.blocks != 0) {
    keys.add("generated.block_count", kUint32, static_cast<uint32_t>(request.blocks));
  }
  if (request.shards != 0) {
    keys.add("split.no", kUint16, static_cast<uint16_t>(index));
    keys.add("split.count", kUint16, static_cast<uint16_t>(files));
    keys.add("split.tensors.count", kInt32, static_cast<int32_t>(tensors));
  }
  return keys;
}

std::string gguf_header(const GenerateRequest &request, size_t index,
                        const std::vector<PlannedFile> &files,
                        const std::vector<PlannedTensor> &tensors) {
  const PlannedFile &file = files[index];
  const GgufKeys keys = gguf_keys(request, index, files.size(), tensors.size());
  std::string header = "GGUF" + bytes_of(uint32_t{3}) +
                       bytes_of<uint64_t>(file.end_tensor - file.first_tensor) +
                       bytes_of(keys.count()) + keys.bytes();
  const uint32_t type = ggml_type(request.type).value_or(0);
  for (size_t i = file.first_tensor; i < file.end_tensor; ++i) {
    header += gguf_tensor(tensors[i], type);
  }
  header.resize((header.size() + kGgufAlignment - 1) / kGgufAlignment * kGgufAlignment);
  if (header.size() > kMostHeaderBytes) throw too_long(request, header.size());
  return header;
}

}  // namespace

uint64_t data_alignment(sluice_format format) {
  return format == SLUICE_FORMAT_GGUF ? kGgufAlignment : 1;
}

std::string shard_name(sluice_format format, uint32_t index, uint32_t count) {
  return fmt::format("model-{:05}-of-{:05}.{}", index + 1, count,
                     format == SLUICE_FORMAT_GGUF ? "gguf" : "safetensors");
}

std::string tensor_name(sluice_format format, uint64_t block, uint64_t part) {
  const bool gguf = format == SLUICE_FORMAT_GGUF;
  if (block != kNoBlock) {
    return fmt::format("{}.{}.part_{}.weight", gguf ? "blk" : "model.layers", block, part);
  }
  if (part == 0) return gguf ? "token_embd.weight" : "model.embed_tokens.weight";
  return fmt::format("{}_{}.weight", gguf ? "output" : "head", part);
}

void check_type(const GenerateRequest &request) {
  const char *type = sluice_type_name(request.type);
  if (request.format == SLUICE_FORMAT_GGUF && !ggml_type(request.type)) {
    throw UsageError(fmt::format("--type {}: a GGUF file can't have it; I8 is what it has", type));
  }
  if (request.format != SLUICE_FORMAT_GGUF && sluice_type_bits(request.type) == 0) {
    throw UsageError(fmt::format("--type {}: quantised types need --format gguf", type));
  }
}

std::string header_of(const GenerateRequest &request, size_t index,
                      const std::vector<PlannedFile> &files,
                      const std::vector<PlannedTensor> &tensors) {
  return request.format == SLUICE_FORMAT_GGUF ? gguf_header(request, index, files, tensors)
                                              : safetensors_header(request, files[index], tensors);
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

}  // namespace program

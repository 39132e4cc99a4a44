#include "io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/json_events.h"
#include "io/types.h"

namespace sluice {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";

sluice_type type_of(std::string_view text) {
#define SLUICE_MATCH(name, number, bits, spelling) \
  if (text == spelling) return SLUICE_TYPE_##name;
  SLUICE_TYPE_LIST(SLUICE_MATCH)
#undef SLUICE_MATCH
  return SLUICE_TYPE_UNKNOWN;
}

// What a file that isn't a safetensors file is, by its first bytes; "" for anything else.
const char *guess_format(std::string_view start) {
  struct Guess {
    std::string_view magic;
    const char *text;
  };
  static constexpr Guess kGuesses[] = {
      {"version ", "; it looks like a Git LFS pointer: fetch the file itself with git lfs pull"},
      {"GGUF", "; it looks like a GGUF file"},
      {"PK\x03\x04", "; it looks like a zip archive, such as a PyTorch checkpoint"},
      {"\x80\x02", "; it looks like a Python pickle"},
      {"<", "; it looks like an HTML or XML page"},
      {"{", "; it looks like JSON"},
  };
  for (const Guess &guess : kGuesses) {
    if (start.starts_with(guess.magic)) return guess.text;
  }
  return "";
}

}  // namespace

// Follows the events of one header. A state says which value is expected next.
class SafetensorsParser final : public JsonEvents {
 public:
  Status begin(JsonKind kind) override;
  Status end(JsonKind kind) override;
  Status key(std::string_view text) override;
  Status text(std::string_view text) override;
  Status whole(uint64_t value) override;
  Status other(JsonKind kind) override;

  Result<FileHeader> finish(uint64_t data_bytes);

 private:
  enum class State {
    kStart,
    kTop,            // a key of the header
    kTensorValue,    // the object of a tensor
    kTensor,         // a key of that object
    kType,           // the value of dtype
    kShapeValue,     // the value of shape
    kShape,          // a dimension
    kOffsetsValue,   // the value of data_offsets
    kOffset,         // one of the two
    kUnknown,        // the value of an unknown key
    kMetadataValue,  // the value of __metadata__
    kMetadata,       // a key of it
    kMetadataText,   // and its value
    kDone
  };
  // Keys of a tensor's object that were seen.
  enum : unsigned { kSawType = 1, kSawShape = 2, kSawOffsets = 4, kSawAll = 7 };

  using Tensor = HeaderTables::Tensor;

  Status begin_tensor(std::string_view name);
  Status tensor_key(std::string_view text);
  Status finish_tensor();
  Status check_size(const Tensor &tensor) const;
  Status finish_unknown_keys();
  Status metadata_key(std::string_view text);
  Status unexpected(JsonKind kind) const;
  Status check_names() const;
  Status check_metadata() const;
  Status check_cover(uint64_t data_bytes) const;

  template <typename... Args>
  Status tensor_error(sluice_status code, const Tensor &tensor, fmt::format_string<Args...> format,
                      Args &&...args) const {
    return error(code, "tensor '{}': {} (header byte {})", printable(header_.name_of(tensor)),
                 fmt::format(format, std::forward<Args>(args)...), tensor.header_byte);
  }
  template <typename... Args>
  Status bad_tensor(fmt::format_string<Args...> format, Args &&...args) const {
    Tensor here = tensor_;
    here.header_byte = static_cast<uint32_t>(position());
    return tensor_error(SLUICE_BAD_FORMAT, here, format, std::forward<Args>(args)...);
  }

  HeaderTables header_;
  State state_ = State::kStart;
  Tensor tensor_ = {};
  unsigned saw_ = 0;
  unsigned offset_count_ = 0;
  size_t unknown_depth_ = 0;
  std::vector<std::string> unknown_keys_;
  bool saw_metadata_ = false;
};

Status SafetensorsParser::begin(JsonKind kind) {
  const bool object = kind == JsonKind::kObject;
  switch (state_) {
    case State::kStart:
      if (!object) return unexpected(kind);
      state_ = State::kTop;
      return {};
    case State::kTensorValue:
      if (!object) return unexpected(kind);
      state_ = State::kTensor;
      return {};
    case State::kMetadataValue:
      if (!object) return unexpected(kind);
      state_ = State::kMetadata;
      return {};
    case State::kShapeValue:
      if (object) return unexpected(kind);
      state_ = State::kShape;
      return {};
    case State::kOffsetsValue:
      if (object) return unexpected(kind);
      state_ = State::kOffset;
      return {};
    case State::kUnknown:
      ++unknown_depth_;
      return {};
    default:
      return unexpected(kind);
  }
}

Status SafetensorsParser::end(JsonKind) {
  switch (state_) {
    case State::kTop:
      state_ = State::kDone;
      return {};
    case State::kTensor:
      state_ = State::kTop;
      return finish_tensor();
    case State::kMetadata:
      state_ = State::kTop;
      return {};
    case State::kShape:
      state_ = State::kTensor;
      return {};
    case State::kOffset:
      state_ = State::kTensor;
      if (offset_count_ == 2) return {};
      return bad_tensor("data_offsets has {} numbers, not 2", offset_count_);
    case State::kUnknown:
      if (--unknown_depth_ == 0) state_ = State::kTensor;
      return {};
    default:
      return error(SLUICE_INTERNAL, "safetensors header: an end in state {}",
                   static_cast<int>(state_));
  }
}

Status SafetensorsParser::key(std::string_view text) {
  switch (state_) {
    case State::kTop:
      if (text != kMetadataKey) return begin_tensor(text);
      if (saw_metadata_) {
        return error(SLUICE_BAD_FORMAT, "__metadata__ is there twice (header byte {})", position());
      }
      saw_metadata_ = true;
      state_ = State::kMetadataValue;
      return {};
    case State::kTensor:
      return tensor_key(text);
    case State::kMetadata:
      return metadata_key(text);
    default:
      return {};  // inside the value of an unknown key
  }
}

Status SafetensorsParser::begin_tensor(std::string_view name) {
  tensor_ = {};
  tensor_.name_size = static_cast<uint32_t>(name.size());
  tensor_.name = header_.store(name);
  tensor_.shape = static_cast<uint32_t>(header_.dimensions.size());
  tensor_.header_byte = static_cast<uint32_t>(position());
  saw_ = 0;
  offset_count_ = 0;
  unknown_keys_.clear();
  state_ = State::kTensorValue;
  if (name.find('\0') != name.npos) return bad_tensor("its name has a NUL character");
  return {};
}

Status SafetensorsParser::tensor_key(std::string_view text) {
  unsigned key = 0;
  if (text == "dtype") {
    key = kSawType;
    state_ = State::kType;
  } else if (text == "shape") {
    key = kSawShape;
    state_ = State::kShapeValue;
  } else if (text == "data_offsets") {
    key = kSawOffsets;
    state_ = State::kOffsetsValue;
  } else {
    unknown_keys_.emplace_back(text);
    state_ = State::kUnknown;
  }
  if (saw_ & key) return bad_tensor("key '{}' is there twice", text);
  saw_ |= key;
  return {};
}

Status SafetensorsParser::metadata_key(std::string_view text) {
  if (text.find('\0') != text.npos) {
    return error(SLUICE_BAD_FORMAT, "__metadata__ key '{}' has a NUL character (header byte {})",
                 printable(text), position());
  }
  const auto size = static_cast<uint32_t>(text.size());
  header_.metadata.push_back({header_.store(text), size, 0, 0});
  state_ = State::kMetadataText;
  return {};
}

Status SafetensorsParser::text(std::string_view text) {
  switch (state_) {
    case State::kType: {
      const sluice_type type = type_of(text);
      if (type == SLUICE_TYPE_UNKNOWN) return bad_tensor("unknown dtype '{}'", printable(text));
      tensor_.type = static_cast<uint8_t>(type);
      state_ = State::kTensor;
      return {};
    }
    case State::kMetadataText: {
      auto &entry = header_.metadata.back();
      if (text.find('\0') != text.npos) {
        return error(SLUICE_BAD_FORMAT,
                     "__metadata__ value of '{}' has a NUL character (header byte {})",
                     printable(header_.key_of(entry)), position());
      }
      entry.value_size = static_cast<uint32_t>(text.size());
      entry.value = header_.store(text);
      state_ = State::kMetadata;
      return {};
    }
    default:
      return other(JsonKind::kText);
  }
}

Status SafetensorsParser::whole(uint64_t value) {
  switch (state_) {
    case State::kShape:
      if (tensor_.dimension_count == SLUICE_MAX_DIMENSIONS) {
        return bad_tensor("more than {} dimensions", SLUICE_MAX_DIMENSIONS);
      }
      header_.dimensions.push_back(value);
      ++tensor_.dimension_count;
      return {};
    case State::kOffset:
      if (offset_count_ == 2) return bad_tensor("data_offsets has more than 2 numbers");
      (offset_count_++ == 0 ? tensor_.begin : tensor_.end) = value;
      return {};
    default:
      return other(JsonKind::kWhole);
  }
}

Status SafetensorsParser::other(JsonKind kind) {
  if (state_ == State::kUnknown) {
    if (unknown_depth_ == 0) state_ = State::kTensor;
    return {};
  }
  if (state_ == State::kMetadataValue && kind == JsonKind::kNull) {
    state_ = State::kTop;
    return {};
  }
  return unexpected(kind);
}

Status SafetensorsParser::unexpected(JsonKind kind) const {
  const char *found = json_kind_text(kind);
  switch (state_) {
    case State::kTensorValue:
      return bad_tensor("it is {}, not an object", found);
    case State::kType:
      return bad_tensor("dtype is {}, not a string", found);
    case State::kShapeValue:
      return bad_tensor("shape is {}, not an array", found);
    case State::kShape:
      return bad_tensor("a dimension is {}, not a whole number", found);
    case State::kOffsetsValue:
      return bad_tensor("data_offsets is {}, not an array", found);
    case State::kOffset:
      return bad_tensor("one of data_offsets is {}, not a whole number", found);
    case State::kMetadataValue:
      return error(SLUICE_BAD_FORMAT, "__metadata__ is {}, not an object (header byte {})", found,
                   position());
    case State::kMetadataText: {
      const auto &entry = header_.metadata.back();
      return error(SLUICE_BAD_FORMAT,
                   "__metadata__ value of '{}' is {}, not a string (header byte {})",
                   printable(header_.key_of(entry)), found, position());
    }
    default:
      return error(SLUICE_BAD_FORMAT, "it is {}, not an object", found);
  }
}

Status SafetensorsParser::finish_tensor() {
  if (saw_ != kSawAll) {
    return bad_tensor("it has no {}", !(saw_ & kSawType)    ? "dtype"
                                      : !(saw_ & kSawShape) ? "shape"
                                                            : "data_offsets");
  }
  SLUICE_TRY(finish_unknown_keys());
  if (tensor_.begin > tensor_.end) {
    return tensor_error(SLUICE_BAD_FORMAT, tensor_, "data_offsets [{}, {}] are reversed",
                        tensor_.begin, tensor_.end);
  }
  SLUICE_TRY(check_size(tensor_));
  header_.tensors.push_back(tensor_);
  return {};
}

Status SafetensorsParser::check_size(const Tensor &tensor) const {
  const auto type = static_cast<sluice_type>(tensor.type);
  uint64_t bits = 1;
  bool fits = true;
  // In the order of the shape and before the element's size, as the safetensors library does: it
  // decides whether [2^63, 4, 0] overflows.
  for (const uint64_t dimension : header_.shape_of(tensor))
    fits = fits && multiply(bits, dimension);
  fits = fits && multiply(bits, type_bits(type));
  const auto shape = [&] { return shape_text(header_.shape_of(tensor)); };
  if (!fits) {
    return tensor_error(SLUICE_BAD_FORMAT, tensor, "the size of {} {} overflows 64 bits",
                        type_name(type), shape());
  }
  if (bits % 8 != 0) {
    return tensor_error(SLUICE_BAD_FORMAT, tensor, "{} {} is not a whole number of bytes",
                        type_name(type), shape());
  }
  if (tensor.end - tensor.begin != bits / 8) {
    return tensor_error(SLUICE_BAD_FORMAT, tensor,
                        "{} {} needs {} bytes, but data_offsets [{}, {}] hold {}", type_name(type),
                        shape(), bits / 8, tensor.begin, tensor.end, tensor.end - tensor.begin);
  }
  return {};
}

Status SafetensorsParser::finish_unknown_keys() {
  std::sort(unknown_keys_.begin(), unknown_keys_.end());
  const auto twice = std::adjacent_find(unknown_keys_.begin(), unknown_keys_.end());
  if (twice == unknown_keys_.end()) return {};
  return bad_tensor("key '{}' is there twice", printable(*twice));
}

Status SafetensorsParser::check_names() const {
  const auto twice = header_.twice_named();
  if (!twice) return {};
  return tensor_error(SLUICE_BAD_FORMAT, header_.tensors[twice->second],
                      "its name is there twice, first at header byte {}",
                      header_.tensors[twice->first].header_byte);
}

Status SafetensorsParser::check_metadata() const {
  const auto twice = header_.twice_keyed();
  if (!twice) return {};
  return error(SLUICE_BAD_FORMAT, "__metadata__ key '{}' is there twice",
               printable(header_.key_of(header_.metadata[twice->second])));
}

Status SafetensorsParser::check_cover(uint64_t data_bytes) const {
  const Tensor *before = nullptr;
  const Tensor *past_end = nullptr;
  uint64_t covered = 0;
  for (const Tensor &tensor : header_.tensors) {
    if (tensor.begin < covered) {
      return tensor_error(SLUICE_BAD_FORMAT, tensor, "its data [{}, {}) overlap '{}' [{}, {})",
                          tensor.begin, tensor.end, printable(header_.name_of(*before)),
                          before->begin, before->end);
    }
    if (tensor.begin > covered) {
      return tensor_error(SLUICE_BAD_FORMAT, tensor,
                          "its data [{}, {}) leave a hole: no tensor has the {} bytes before it",
                          tensor.begin, tensor.end, tensor.begin - covered);
    }
    if (!past_end && tensor.end > data_bytes) past_end = &tensor;
    covered = tensor.end;
    before = &tensor;
  }
  if (past_end) {
    return tensor_error(SLUICE_END_OF_FILE, *past_end,
                        "its data [{}, {}) end past the {} bytes of data that the file has",
                        past_end->begin, past_end->end, data_bytes);
  }
  if (covered < data_bytes) {
    return error(SLUICE_BAD_FORMAT, "{} bytes of data follow the last tensor{}{}{}",
                 data_bytes - covered, before ? " '" : "",
                 before ? printable(header_.name_of(*before)) : std::string(), before ? "'" : "");
  }
  return {};
}

Result<FileHeader> SafetensorsParser::finish(uint64_t data_bytes) {
  SLUICE_TRY(check_names());
  SLUICE_TRY(check_metadata());
  header_.sort_by_offset();
  SLUICE_TRY(check_cover(data_bytes));
  return FileHeader(std::move(header_));
}

Result<uint64_t> safetensors_header_bytes(std::span<const unsigned char> prefix,
                                          uint64_t file_bytes) {
  if (file_bytes < kSafetensorsPrefixBytes || prefix.size() < kSafetensorsPrefixBytes) {
    return error(SLUICE_END_OF_FILE,
                 "the file has {} bytes; the length of a safetensors header alone takes {}",
                 std::min<uint64_t>(file_bytes, prefix.size()), kSafetensorsPrefixBytes);
  }
  uint64_t bytes = 0;
  for (size_t i = kSafetensorsPrefixBytes; i-- > 0;) bytes = bytes << 8 | prefix[i];
  if (bytes > kSafetensorsMaxHeaderBytes) {
    const std::string_view start(reinterpret_cast<const char *>(prefix.data()),
                                 kSafetensorsPrefixBytes);
    return error(SLUICE_BAD_FORMAT,
                 "the header's length is given as {} bytes, more than the {} that the safetensors "
                 "format allows{}",
                 bytes, kSafetensorsMaxHeaderBytes, guess_format(start));
  }
  if (bytes > file_bytes - kSafetensorsPrefixBytes) {
    return error(SLUICE_END_OF_FILE,
                 "the header's length is given as {} bytes, but only {} follow: the file is cut "
                 "off",
                 bytes, file_bytes - kSafetensorsPrefixBytes);
  }
  return bytes;
}

static Result<FileHeader> parse(std::string_view json, uint64_t data_bytes) {
  if (json.size() > kSafetensorsMaxHeaderBytes) {
    return error(SLUICE_BAD_FORMAT, "it has {} bytes, more than the {} that are allowed",
                 json.size(), kSafetensorsMaxHeaderBytes);
  }
  if (!json.starts_with('{')) {
    return error(SLUICE_BAD_FORMAT, "it doesn't start with '{{' (header byte 0)");
  }
  SafetensorsParser parser;
  SLUICE_TRY(parse_json(json, parser));
  return parser.finish(data_bytes);
}

Result<FileHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes) {
  Result<FileHeader> header = parse(json, data_bytes);
  if (!header.ok()) return header.take_status().with_context("safetensors header");
  return header;
}

}  // namespace sluice

#include "io/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "io/json_events.h"
#include "io/types.h"
#include "io/utf8.h"

namespace sluice {
namespace {

constexpr uint32_t kOldestVersion = 2;
constexpr uint32_t kNewestVersion = 3;
constexpr uint64_t kMaxNameBytes = 65535;
constexpr uint64_t kMaxDimensions = 4;
constexpr uint64_t kMaxDimension = INT64_MAX;
constexpr unsigned kMaxArrayDepth = 8;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMinAlignment = 8;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

// The least bytes that each of these takes.
constexpr uint64_t kMinString = 8;              // its length
constexpr uint64_t kMinArray = 4 + 8;           // type and count
constexpr uint64_t kMinKeyValue = 8 + 4 + 1;    // key, type, value
constexpr uint64_t kMinTensor = 8 + 4 + 4 + 8;  // name, dimension count, type, offset

// A key of 14 bytes and more may become a text of 24 digits: still within 32 bits.
static_assert(4 * kGgufMaxHeaderBytes <= UINT32_MAX);

enum ValueType : uint32_t {
  kUint8,
  kInt8,
  kUint16,
  kInt16,
  kUint32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUint64,
  kInt64,
  kFloat64,
};
struct ValueKind {
  const char *name;
  uint64_t bytes;  // 0: they differ
};
constexpr ValueKind kValueKinds[] = {{"uint8", 1},  {"int8", 1},  {"uint16", 2},  {"int16", 2},
                                     {"uint32", 4}, {"int32", 4}, {"float32", 4}, {"bool", 1},
                                     {"string", 0}, {"array", 0}, {"uint64", 8},  {"int64", 8},
                                     {"float64", 8}};

// A number of up to 8 bytes, as it lies in the file.
struct Scalar {
  uint32_t type;
  uint64_t bits;

  int64_t as_signed() const {
    const auto shift = static_cast<int>(64 - 8 * kValueKinds[type].bytes);
    return static_cast<int64_t>(bits << shift) >> shift;
  }
  // As a whole number that isn't negative.
  std::optional<uint64_t> whole() const {
    switch (type) {
      case kUint8:
      case kUint16:
      case kUint32:
      case kUint64:
        return bits;
      case kInt8:
      case kInt16:
      case kInt32:
      case kInt64:
        if (as_signed() < 0) return {};
        return static_cast<uint64_t>(as_signed());
      default:
        return {};
    }
  }
  std::string text() const {
    switch (type) {
      case kBool:
        return bits != 0 ? "true" : "false";
      case kFloat32:
        return fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(bits)));
      case kFloat64:
        return fmt::format("{}", std::bit_cast<double>(bits));
      default:
        return whole() ? fmt::format("{}", *whole()) : fmt::format("{}", as_signed());
    }
  }
};

// The types by their numbers in ggml; those that it no longer has are UNKNOWN.
sluice_type type_of(uint32_t number) {
  static constexpr sluice_type kTypes[] = {
      SLUICE_TYPE_F32,     SLUICE_TYPE_F16,     SLUICE_TYPE_Q4_0,    SLUICE_TYPE_Q4_1,
      SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_Q5_0,    SLUICE_TYPE_Q5_1,
      SLUICE_TYPE_Q8_0,    SLUICE_TYPE_Q8_1,    SLUICE_TYPE_Q2_K,    SLUICE_TYPE_Q3_K,
      SLUICE_TYPE_Q4_K,    SLUICE_TYPE_Q5_K,    SLUICE_TYPE_Q6_K,    SLUICE_TYPE_Q8_K,
      SLUICE_TYPE_IQ2_XXS, SLUICE_TYPE_IQ2_XS,  SLUICE_TYPE_IQ3_XXS, SLUICE_TYPE_IQ1_S,
      SLUICE_TYPE_IQ4_NL,  SLUICE_TYPE_IQ3_S,   SLUICE_TYPE_IQ2_S,   SLUICE_TYPE_IQ4_XS,
      SLUICE_TYPE_I8,      SLUICE_TYPE_I16,     SLUICE_TYPE_I32,     SLUICE_TYPE_I64,
      SLUICE_TYPE_F64,     SLUICE_TYPE_IQ1_M,   SLUICE_TYPE_BF16,    SLUICE_TYPE_UNKNOWN,
      SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_TQ1_0,   SLUICE_TYPE_TQ2_0,
      SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_UNKNOWN, SLUICE_TYPE_MXFP4,
      SLUICE_TYPE_NVFP4,   SLUICE_TYPE_Q1_0};
  return number < std::size(kTypes) ? kTypes[number] : SLUICE_TYPE_UNKNOWN;
}

// Its steps answer whether to go on: no means that failure_ or needed_ says why.
class GgufParser {
 public:
  GgufParser(std::span<const unsigned char> start, uint64_t file_bytes)
      : start_(start.first(std::min({uint64_t{start.size()}, file_bytes, kGgufMaxHeaderBytes}))),
        file_bytes_(file_bytes) {}

  Result<GgufParse> run();

 private:
  using Tensor = HeaderTables::Tensor;
  enum class Item { kFile, kKey, kTensor };

  bool parse();
  bool preamble();
  bool check_version(uint32_t version);

  bool key_value(uint64_t index);
  bool value(uint32_t type);
  bool scalar(Scalar &out);
  bool array(unsigned depth, std::string *shown);
  bool elements(uint32_t type, uint64_t count, unsigned depth);
  bool bools(uint64_t count);
  bool set_alignment(const Scalar &scalar);
  bool set_split(std::optional<uint64_t> &out, const Scalar &scalar);
  void add_metadata(std::string_view text);

  bool tensor(uint64_t index);
  bool dimensions(Tensor &out);
  bool size(const Tensor &tensor, uint64_t &bytes);

  bool finish();
  bool check_names();
  bool check_places();
  bool check_split();

  template <typename Number>
  bool number(Number &out);
  bool text(std::string_view &out, const char *what, uint64_t most_bytes);
  bool take(uint64_t bytes);
  bool lacks(uint64_t bytes);
  bool room(uint64_t count, uint64_t each, const char *what);

  void begin_item(Item item, uint64_t index, uint64_t count);
  std::string where() const;
  template <typename... Args>
  bool fail(sluice_status code, fmt::format_string<Args...> format, Args &&...args) {
    failure_ = error(code, "{}{} (byte {})", where(),
                     fmt::format(format, std::forward<Args>(args)...), field_);
    return false;
  }
  template <typename... Args>
  bool bad(fmt::format_string<Args...> format, Args &&...args) {
    return fail(SLUICE_BAD_FORMAT, format, std::forward<Args>(args)...);
  }
  template <typename... Args>
  bool tensor_fails(sluice_status code, const Tensor &tensor, fmt::format_string<Args...> format,
                    Args &&...args) {
    failure_ = error(code, "tensor '{}': {} (byte {})", printable(tables_.name_of(tensor)),
                     fmt::format(format, std::forward<Args>(args)...), tensor.header_byte);
    return false;
  }

  const std::span<const unsigned char> start_;
  const uint64_t file_bytes_;
  uint64_t at_ = 0;
  uint64_t field_ = 0;  // where what was read last begins
  uint64_t needed_ = 0;
  Status failure_;

  Item item_ = Item::kFile;
  uint64_t item_index_ = 0;
  uint64_t item_count_ = 0;
  std::optional<std::string_view> item_name_;

  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t data_offset_ = 0;
  std::optional<uint64_t> split_number_, split_count_, split_tensor_count_;
  HeaderTables tables_;
};

// ---- Bytes

bool GgufParser::take(uint64_t bytes) {
  field_ = at_;
  if (bytes > start_.size() - at_) return lacks(bytes);
  at_ += bytes;
  return true;
}

bool GgufParser::lacks(uint64_t bytes) {
  const uint64_t file_left = file_bytes_ - at_;
  if (bytes > kGgufMaxHeaderBytes - at_) {
    return bad("{} bytes are needed, and a header of more than {} bytes isn't allowed", bytes,
               kGgufMaxHeaderBytes);
  }
  if (bytes > file_left) {
    return fail(SLUICE_END_OF_FILE, "{} bytes are needed, but only {} follow: the file is cut off",
                bytes, file_left);
  }
  needed_ = at_ + bytes;
  return false;
}

// Whether `count` things of `each` bytes or more can follow. A count that says too much ends here,
// before anything is done for it.
bool GgufParser::room(uint64_t count, uint64_t each, const char *what) {
  if (count > (kGgufMaxHeaderBytes - at_) / each) {
    return bad("it has {} {}, more than a header of at most {} bytes can hold", count, what,
               kGgufMaxHeaderBytes);
  }
  if (count > (file_bytes_ - at_) / each) {
    return fail(SLUICE_END_OF_FILE, "it has {} {}, but only {} bytes follow: the file is cut off",
                count, what, file_bytes_ - at_);
  }
  return true;
}

template <typename Number>
bool GgufParser::number(Number &out) {
  if (!take(sizeof out)) return false;
  out = 0;
  for (size_t i = sizeof out; i-- > 0;) {
    out = static_cast<Number>(out << 8 | start_[static_cast<size_t>(field_) + i]);
  }
  return true;
}

// A text that a header keeps: UTF-8 without NUL.
bool GgufParser::text(std::string_view &out, const char *what, uint64_t most_bytes) {
  uint64_t bytes = 0;
  if (!number(bytes)) return false;
  if (bytes > most_bytes) return bad("its {} has {} bytes, more than {}", what, bytes, most_bytes);
  if (!take(bytes)) return false;
  out = {reinterpret_cast<const char *>(start_.data()) + field_, static_cast<size_t>(bytes)};
  if (out.find('\0') != out.npos) return bad("its {} has a NUL character", what);
  if (!is_utf8(out)) return bad("its {} isn't UTF-8", what);
  return true;
}

void GgufParser::begin_item(Item item, uint64_t index, uint64_t count) {
  item_ = item;
  item_index_ = index;
  item_count_ = count;
  item_name_.reset();
}

std::string GgufParser::where() const {
  if (item_ == Item::kFile) return "";
  const char *what = item_ == Item::kKey ? "key" : "tensor";
  if (item_name_) return fmt::format("{} '{}': ", what, printable(*item_name_));
  return fmt::format("{} {} of {}: ", what, item_index_ + 1, item_count_);
}

// ---- Before the keys

bool GgufParser::preamble() {
  if (!take(kGgufMagic.size())) return false;
  if (!std::equal(kGgufMagic.begin(), kGgufMagic.end(), start_.begin())) {
    return bad("it doesn't start with '{}'", kGgufMagic);
  }
  uint32_t version = 0;
  if (!number(version) || !check_version(version)) return false;
  return number(tensor_count_) && room(tensor_count_, kMinTensor, "tensors") &&
         number(key_count_) && room(key_count_, kMinKeyValue, "keys");
}

bool GgufParser::check_version(uint32_t version) {
  if (version >= kOldestVersion && version <= kNewestVersion) return true;
  if (version == 1) {
    return bad("it is of version 1, whose lengths have 32 bits: convert it with a newer llama.cpp");
  }
  // The number of a big-endian file has its low bytes where a little-endian one has the high ones.
  if (version != 0 && (version & 0xFFFF) == 0) {
    return bad(
        "it is big-endian; only little-endian files are read: gguf-convert-endian (of the "
        "PyPI package gguf) converts it");
  }
  return bad("it is of version {}; versions {} and {} are read", version, kOldestVersion,
             kNewestVersion);
}

// ---- Keys and values

bool GgufParser::key_value(uint64_t index) {
  begin_item(Item::kKey, index, key_count_);
  std::string_view key;
  if (!text(key, "key", kMaxNameBytes)) return false;
  if (key.empty()) return bad("it is empty");
  item_name_ = key;
  uint32_t type = 0;
  if (!number(type)) return false;
  if (type >= std::size(kValueKinds)) return bad("its value is of the unknown type {}", type);
  return value(type);
}

bool GgufParser::value(uint32_t type) {
  Scalar found = {type, 0};
  std::string shown;
  std::string_view string;
  if (type == kString) {
    if (!text(string, "value", kGgufMaxHeaderBytes)) return false;
  } else if (type == kArray) {
    if (!array(1, &shown)) return false;
    string = shown;
  } else {
    if (!scalar(found)) return false;
    string = shown = found.text();
  }
  if (item_name_ == "split.no") return set_split(split_number_, found);
  if (item_name_ == "split.count") return set_split(split_count_, found);
  if (item_name_ == "split.tensors.count") return set_split(split_tensor_count_, found);
  if (item_name_ == "general.alignment" && !set_alignment(found)) return false;
  add_metadata(string);
  return true;
}

bool GgufParser::scalar(Scalar &out) {
  const uint64_t bytes = kValueKinds[out.type].bytes;
  if (!take(bytes)) return false;
  for (uint64_t i = bytes; i-- > 0;) {
    out.bits = out.bits << 8 | start_[static_cast<size_t>(field_ + i)];
  }
  if (out.type == kBool && out.bits > 1) return bad("a bool is {}, not 0 or 1", out.bits);
  return true;
}

//   shown  of the outermost array: what is shown of it. NULL for those inside.
bool GgufParser::array(unsigned depth, std::string *shown) {
  uint32_t type = 0;
  uint64_t count = 0;
  if (depth > kMaxArrayDepth) return bad("arrays are nested deeper than {}", kMaxArrayDepth);
  if (!number(type)) return false;
  if (type >= std::size(kValueKinds)) return bad("its array is of the unknown type {}", type);
  if (!number(count)) return false;
  if (shown) *shown = fmt::format("[{} x {}]", kValueKinds[type].name, count);
  return elements(type, count, depth);
}

bool GgufParser::elements(uint32_t type, uint64_t count, unsigned depth) {
  if (type == kBool) return bools(count);
  if (type == kString) {
    if (!room(count, kMinString, "strings")) return false;
    for (uint64_t i = 0, bytes = 0; i < count; ++i) {
      if (!number(bytes) || !take(bytes)) return false;
    }
    return true;
  }
  if (type == kArray) {
    if (!room(count, kMinArray, "arrays")) return false;
    for (uint64_t i = 0; i < count; ++i) {
      if (!array(depth + 1, nullptr)) return false;
    }
    return true;
  }
  return room(count, kValueKinds[type].bytes, "numbers") && take(count * kValueKinds[type].bytes);
}

bool GgufParser::bools(uint64_t count) {
  if (!room(count, 1, "bools") || !take(count)) return false;
  for (uint64_t i = 0; i < count; ++i, ++field_) {
    const unsigned value = start_[static_cast<size_t>(field_)];
    if (value > 1) return bad("a bool is {}, not 0 or 1", value);
  }
  return true;
}

bool GgufParser::set_alignment(const Scalar &scalar) {
  if (scalar.type != kUint32) {
    return bad("its value is of type {}, not uint32", kValueKinds[scalar.type].name);
  }
  if (!std::has_single_bit(scalar.bits) || scalar.bits < kMinAlignment ||
      scalar.bits > kMaxAlignment) {
    return bad("{} isn't a power of two from {} to {}", scalar.bits, kMinAlignment, kMaxAlignment);
  }
  alignment_ = scalar.bits;
  return true;
}

bool GgufParser::set_split(std::optional<uint64_t> &out, const Scalar &scalar) {
  if (out) return bad("it is there twice");
  out = scalar.whole();
  return out || bad("its value isn't a whole number");
}

void GgufParser::add_metadata(std::string_view text) {
  HeaderTables::Metadata entry = {};
  entry.key_size = static_cast<uint32_t>(item_name_->size());
  entry.key = tables_.store(*item_name_);
  entry.value_size = static_cast<uint32_t>(text.size());
  entry.value = tables_.store(text);
  tables_.metadata.push_back(entry);
}

// ---- Tensors

bool GgufParser::tensor(uint64_t index) {
  begin_item(Item::kTensor, index, tensor_count_);
  Tensor found = {};
  found.header_byte = static_cast<uint32_t>(at_);
  std::string_view name;
  if (!text(name, "name", kMaxNameBytes)) return false;
  item_name_ = name;
  uint32_t type = 0;
  if (!dimensions(found) || !number(type)) return false;
  found.type = static_cast<uint8_t>(type_of(type));
  if (found.type == SLUICE_TYPE_UNKNOWN) return bad("it is of the unknown type {}", type);
  uint64_t bytes = 0;
  if (!size(found, bytes) || !number(found.begin)) return false;
  if (found.begin % alignment_ != 0) {
    return bad("its offset {} isn't a multiple of the alignment, {}", found.begin, alignment_);
  }
  if (__builtin_add_overflow(found.begin, bytes, &found.end)) {
    return bad("its offset {} and its {} bytes overflow 64 bits", found.begin, bytes);
  }
  found.name_size = static_cast<uint32_t>(name.size());
  found.name = tables_.store(name);
  tables_.tensors.push_back(found);
  return true;
}

bool GgufParser::dimensions(Tensor &out) {
  uint32_t count = 0;
  if (!number(count)) return false;
  if (count > kMaxDimensions)
    return bad("it has {} dimensions, more than {}", count, kMaxDimensions);
  out.shape = static_cast<uint32_t>(tables_.dimensions.size());
  out.dimension_count = static_cast<uint8_t>(count);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t dimension = 0;
    if (!number(dimension)) return false;
    if (dimension > kMaxDimension) return bad("its dimension {} is {}", i, dimension);
    tables_.dimensions.push_back(dimension);
  }
  std::reverse(tables_.dimensions.end() - count, tables_.dimensions.end());
  return true;
}

bool GgufParser::size(const Tensor &tensor, uint64_t &bytes) {
  const auto type = static_cast<sluice_type>(tensor.type);
  const TypeBlock block = type_block(type);
  const std::span<const uint64_t> shape = tables_.shape_of(tensor);
  const uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % block.elements != 0) {
    return bad("{} {}: rows of {} elements can't be made of blocks of {}", type_name(type),
               shape_text(shape), row, block.elements);
  }
  // The elements have to fit too: readers count them.
  uint64_t elements = 1;
  bool fits = true;
  for (size_t i = shape.size(); i-- > 0;) fits = fits && multiply(elements, shape[i]);
  bytes = elements / block.elements;
  fits = fits && multiply(bytes, block.bytes);
  return fits || bad("the size of {} {} overflows 64 bits", type_name(type), shape_text(shape));
}

// ---- The whole

bool GgufParser::check_names() {
  if (const auto twice = tables_.twice_keyed()) {
    field_ = at_;
    return bad("key '{}' is there twice",
               printable(tables_.key_of(tables_.metadata[twice->second])));
  }
  if (const auto twice = tables_.twice_named()) {
    return tensor_fails(SLUICE_BAD_FORMAT, tables_.tensors[twice->second],
                        "its name is there twice, first at byte {}",
                        tables_.tensors[twice->first].header_byte);
  }
  return true;
}

bool GgufParser::check_places() {
  if (tables_.tensors.empty()) return true;
  if (data_offset_ > file_bytes_) {
    return fail(SLUICE_END_OF_FILE, "the data would begin at {}, but the file has {} bytes",
                data_offset_, file_bytes_);
  }
  const uint64_t data_bytes = file_bytes_ - data_offset_;
  const Tensor *before = nullptr;
  for (const Tensor &tensor : tables_.tensors) {
    if (before && tensor.begin < before->end) {
      return tensor_fails(SLUICE_BAD_FORMAT, tensor, "its data [{}, {}) overlap '{}' [{}, {})",
                          tensor.begin, tensor.end, printable(tables_.name_of(*before)),
                          before->begin, before->end);
    }
    before = &tensor;
  }
  for (const Tensor &tensor : tables_.tensors) {
    if (tensor.end <= data_bytes) continue;
    return tensor_fails(SLUICE_END_OF_FILE, tensor,
                        "its data [{}, {}) end past the {} bytes of data that the file has",
                        tensor.begin, tensor.end, data_bytes);
  }
  return true;
}

bool GgufParser::check_split() {
  field_ = at_;
  // Merging the files of a set leaves the keys behind, with a count of 0.
  if (split_count_ == 0) split_count_.reset();
  if (!split_count_) return true;
  if (!split_number_) return bad("it has split.count but no split.no");
  if (*split_number_ < *split_count_) return true;
  return bad("split.no is {} and split.count {}: it counts from 0", *split_number_, *split_count_);
}

bool GgufParser::finish() {
  begin_item(Item::kFile, 0, 0);
  data_offset_ = (at_ + alignment_ - 1) / alignment_ * alignment_;
  if (!check_names() || !check_split()) return false;
  tables_.sort_by_offset();
  return check_places();
}

bool GgufParser::parse() {
  if (!preamble()) return false;
  for (uint64_t i = 0; i < key_count_; ++i) {
    if (!key_value(i)) return false;
  }
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    if (!tensor(i)) return false;
  }
  return finish();
}

Result<GgufParse> GgufParser::run() {
  if (!parse()) {
    if (failure_.ok()) return GgufParse{{}, needed_};
    return std::move(failure_).with_context("GGUF header");
  }
  std::optional<GgufSplit> split;
  if (split_count_) split = {*split_number_, *split_count_, split_tensor_count_};
  return GgufParse{GgufHeader{FileHeader(std::move(tables_)), data_offset_, split}, 0};
}

}  // namespace

Result<GgufParse> parse_gguf_header(std::span<const unsigned char> start, uint64_t file_bytes) {
  return GgufParser(start, file_bytes).run();
}

}  // namespace sluice

// Fuzzes the GGUF header parser against a plain validator that reads from the first byte to the
// last: both must agree on whether a file is good, and on every field of a good one. The parser is
// also fed in pieces, which must not change its answer, nor make it ask for more than the file has.
// fuzz.h says how it is run; with -DSLUICE_LIBFUZZER it is a libFuzzer target.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/gguf.h"
#include "io/types.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/gguf.h"

namespace {

namespace gguf = support::gguf;
using fuzz::fail;
using fuzz::Random;

// ---- What both sides say of a file

struct Tensor {
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t begin, end;  // in the file
  bool operator==(const Tensor &) const = default;
};
struct Contents {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  std::vector<uint64_t> split;
  bool operator==(const Contents &) const = default;
};
using Verdict = std::optional<Contents>;

// ---- The plain validator

struct PlainType {
  uint32_t number;
  const char *name;
  uint64_t elements, bytes;
};
constexpr PlainType kTypes[] = {
    {0, "F32", 1, 4},         {1, "F16", 1, 2},         {2, "Q4_0", 32, 18},
    {3, "Q4_1", 32, 20},      {6, "Q5_0", 32, 22},      {7, "Q5_1", 32, 24},
    {8, "Q8_0", 32, 34},      {9, "Q8_1", 32, 36},      {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},   {12, "Q4_K", 256, 144},   {13, "Q5_K", 256, 176},
    {14, "Q6_K", 256, 210},   {15, "Q8_K", 256, 292},   {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},  {18, "IQ3_XXS", 256, 98}, {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},   {21, "IQ3_S", 256, 110},  {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136}, {24, "I8", 1, 1},         {25, "I16", 1, 2},
    {26, "I32", 1, 4},        {27, "I64", 1, 8},        {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},   {30, "BF16", 1, 2},       {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},   {39, "MXFP4", 32, 17},    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18}};

struct Invalid {};

void demand(bool condition) {
  if (!condition) throw Invalid();
}

class PlainReader {
 public:
  explicit PlainReader(const std::string &file) : file_(file) {}

  template <typename Number>
  Number number() {
    Number value;
    demand(file_.size() - at_ >= sizeof value);
    std::memcpy(&value, file_.data() + at_, sizeof value);  // little-endian machines run this
    at_ += sizeof value;
    return value;
  }
  std::string bytes() {
    const auto size = number<uint64_t>();
    demand(size <= file_.size() - at_);
    at_ += size;
    return file_.substr(at_ - size, size);
  }
  std::string text() {
    std::string text = bytes();
    demand(text.find('\0') == text.npos);
    try {
      nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception &) {
      throw Invalid();  // not UTF-8
    }
    return text;
  }
  std::string boolean() {
    const auto value = number<uint8_t>();
    demand(value <= 1);
    return value ? "true" : "false";
  }
  size_t at() const { return at_; }

 private:
  const std::string &file_;
  size_t at_ = 0;
};

// The value as it is shown; `whole` is what it is as a whole number.
std::string plain_value(PlainReader &in, uint32_t type, std::optional<uint64_t> &whole, int depth);

std::string plain_array(PlainReader &in, int depth) {
  static constexpr const char *kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                           "int32",  "float32", "bool",   "string", "array",
                                           "uint64", "int64",   "float64"};
  demand(depth <= 8);
  const auto type = in.number<uint32_t>();
  const auto count = in.number<uint64_t>();
  demand(type < 13);
  for (uint64_t i = 0; i < count; ++i) {
    std::optional<uint64_t> ignored;
    if (type == gguf::kString) {
      in.bytes();
    } else {
      plain_value(in, type, ignored, depth);
    }
  }
  return fmt::format("[{} x {}]", kNames[type], count);
}

template <typename Number>
std::string plain_whole(PlainReader &in, std::optional<uint64_t> &whole) {
  const auto value = in.number<Number>();
  if (value >= 0) whole = static_cast<uint64_t>(value);
  return std::to_string(value);
}

std::string plain_value(PlainReader &in, uint32_t type, std::optional<uint64_t> &whole, int depth) {
  switch (type) {
    case gguf::kUint8:
      return plain_whole<uint8_t>(in, whole);
    case gguf::kInt8:
      return plain_whole<int8_t>(in, whole);
    case gguf::kUint16:
      return plain_whole<uint16_t>(in, whole);
    case gguf::kInt16:
      return plain_whole<int16_t>(in, whole);
    case gguf::kUint32:
      return plain_whole<uint32_t>(in, whole);
    case gguf::kInt32:
      return plain_whole<int32_t>(in, whole);
    case gguf::kUint64:
      return plain_whole<uint64_t>(in, whole);
    case gguf::kInt64:
      return plain_whole<int64_t>(in, whole);
    case gguf::kFloat32:
      return fmt::format("{}", in.number<float>());
    case gguf::kFloat64:
      return fmt::format("{}", in.number<double>());
    case gguf::kBool:
      return in.boolean();
    case gguf::kString:
      return in.text();
    case gguf::kArray:
      return plain_array(in, depth + 1);
    default:
      throw Invalid();
  }
}

struct PlainKeys {
  std::map<std::string, std::string> shown;
  std::map<std::string, uint64_t> split;
  uint64_t alignment = 32;
};

PlainKeys plain_keys(PlainReader &in, uint64_t count) {
  PlainKeys keys;
  std::set<std::string> seen;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = in.text();
    demand(!key.empty() && key.size() <= 65535 && seen.insert(key).second);
    const auto type = in.number<uint32_t>();
    std::optional<uint64_t> whole;
    const std::string value = plain_value(in, type, whole, 0);
    if (key == "split.no" || key == "split.count" || key == "split.tensors.count") {
      demand(whole.has_value());
      keys.split[key] = *whole;
      continue;
    }
    keys.shown[key] = value;
    if (key != "general.alignment") continue;
    demand(type == gguf::kUint32);
    bool good = false;
    for (uint64_t power = 8; power <= 1 << 20; power *= 2) good = good || *whole == power;
    demand(good);
    keys.alignment = *whole;
  }
  return keys;
}

// With its place in the data.
Tensor plain_tensor(PlainReader &in, uint64_t alignment) {
  const auto count = in.number<uint32_t>();
  demand(count <= 4);
  std::vector<uint64_t> dimensions;
  for (uint32_t i = 0; i < count; ++i) dimensions.push_back(in.number<uint64_t>());
  const auto number = in.number<uint32_t>();
  const PlainType *type = nullptr;
  for (const PlainType &candidate : kTypes) {
    if (candidate.number == number) type = &candidate;
  }
  demand(type != nullptr);
  unsigned __int128 size = 1;
  for (const uint64_t dimension : dimensions) {
    demand(dimension <= INT64_MAX);
    size *= dimension;
    demand(size <= UINT64_MAX);
  }
  demand((dimensions.empty() ? 1 : dimensions[0]) % type->elements == 0);
  size = size / type->elements * type->bytes;
  const auto offset = in.number<uint64_t>();
  demand(offset % alignment == 0 && size + offset <= UINT64_MAX);
  return {type->name,
          {dimensions.rbegin(), dimensions.rend()},
          offset,
          static_cast<uint64_t>(size) + offset};
}

void plain_places(const std::map<std::string, Tensor> &tensors, uint64_t file_bytes) {
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto &[name, tensor] : tensors) places.emplace_back(tensor.begin, tensor.end);
  std::sort(places.begin(), places.end());
  for (size_t i = 0; i < places.size(); ++i) {
    demand(places[i].second <= file_bytes);
    demand(i == 0 || places[i - 1].second <= places[i].first);
  }
}

Verdict plain_verdict(const std::string &file) try {
  PlainReader in(file);
  demand(file.starts_with("GGUF"));
  in.number<uint32_t>();
  const auto version = in.number<uint32_t>();
  demand(version == 2 || version == 3);
  const auto tensor_count = in.number<uint64_t>();
  const auto key_count = in.number<uint64_t>();
  PlainKeys keys = plain_keys(in, key_count);
  Contents contents;
  contents.metadata = std::move(keys.shown);
  for (uint64_t i = 0; i < tensor_count; ++i) {
    const std::string name = in.text();
    demand(name.size() <= 65535);
    demand(contents.tensors.emplace(name, plain_tensor(in, keys.alignment)).second);
  }
  const uint64_t data = (in.at() + keys.alignment - 1) / keys.alignment * keys.alignment;
  for (auto &[name, tensor] : contents.tensors) {
    demand(tensor.end <= UINT64_MAX - data);
    tensor.begin += data;
    tensor.end += data;
  }
  plain_places(contents.tensors, file.size());
  if (keys.split.contains("split.count") && keys.split["split.count"] != 0) {
    demand(keys.split.contains("split.no") && keys.split["split.no"] < keys.split["split.count"]);
    contents.split = {keys.split["split.no"], keys.split["split.count"],
                      keys.split.contains("split.tensors.count") ? keys.split["split.tensors.count"]
                                                                 : UINT64_MAX};
  }
  return contents;
} catch (const Invalid &) {
  return {};
}

// ---- The parser under test

struct Answer {
  Verdict verdict;
  std::string message;
  bool operator==(const Answer &) const = default;
};

Contents contents_of(const std::string &file, const sluice::GgufHeader &parsed) {
  Contents contents;
  uint64_t at = 0;
  for (uint64_t i = 0; i < parsed.header.tensor_count(); ++i) {
    const sluice::HeaderTensor tensor = parsed.header.tensor(i);
    if (tensor.begin < at) fail(file, "tensors aren't in the order of their offsets");
    if (tensor.name.data()[tensor.name.size()] != '\0') fail(file, "a name without its end");
    at = tensor.end;
    contents.tensors[std::string(tensor.name)] = {sluice::type_name(tensor.type),
                                                  {tensor.shape.begin(), tensor.shape.end()},
                                                  parsed.data_offset + tensor.begin,
                                                  parsed.data_offset + tensor.end};
  }
  if (contents.tensors.size() != parsed.header.tensor_count()) fail(file, "a name is there twice");
  for (uint64_t i = 0; i < parsed.header.metadata_count(); ++i) {
    contents.metadata.insert(parsed.header.metadata(i));
  }
  if (contents.metadata.size() != parsed.header.metadata_count())
    fail(file, "a key is there twice");
  if (parsed.split) {
    contents.split = {parsed.split->number, parsed.split->count,
                      parsed.split->tensor_count.value_or(UINT64_MAX)};
  }
  return contents;
}

// With `first_bytes` at first, and then as many as it asks for.
Answer parser_answer(const std::string &file, size_t first_bytes, bool canary) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(file.data());
  const uint64_t file_bytes = file.size() + (canary ? 1 : 0);  // a byte that isn't there
  size_t given = std::min(first_bytes, file.size());
  for (;;) {
    auto parsed = sluice::parse_gguf_header({bytes, given}, file_bytes);
    if (!parsed.ok()) {
      const sluice_status code = parsed.status().code();
      if (code != SLUICE_BAD_FORMAT && code != SLUICE_END_OF_FILE) {
        fail(file, fmt::format("status {}", static_cast<int>(code)));
      }
      return {{}, parsed.status().record().message};
    }
    if (parsed.value().header) return {contents_of(file, *parsed.value().header), ""};
    const uint64_t needed = parsed.value().needed_bytes;
    if (canary && needed > file.size()) return {{}, "cut off"};
    if (needed <= given || needed > file.size()) fail(file, fmt::format("it needs {}", needed));
    given = static_cast<size_t>(needed);
  }
}

// Whether both accept.
bool compare(const std::string &file, bool canary) {
  const Answer answer = parser_answer(file, file.size(), canary);
  if (parser_answer(file, 0, canary) != answer || parser_answer(file, 50, canary) != answer) {
    fail(file, "pieces change the answer");
  }
  return fuzz::same_answer(file, answer, plain_verdict(file));
}

#ifndef SLUICE_LIBFUZZER

// ---- Files to try

const std::string kTexts[] = {"a",
                              "b",
                              "",
                              "general.alignment",
                              "split.no",
                              "split.count",
                              "split.tensors.count",
                              "general.name",
                              "blk.0.w",
                              "\xc3\xa9",
                              "\xff",
                              std::string("n\0l", 3),
                              std::string(300, 'l')};
constexpr uint64_t kNumbers[] = {0,
                                 1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 9,
                                 12,
                                 13,
                                 16,
                                 31,
                                 32,
                                 33,
                                 64,
                                 255,
                                 256,
                                 65535,
                                 65536,
                                 0x7FFFFFFF,
                                 0x80000000,
                                 0xFFFFFFFF,
                                 0x100000000,
                                 uint64_t{1} << 62,
                                 uint64_t{1} << 63,
                                 UINT64_MAX - 31,
                                 UINT64_MAX};
constexpr uint32_t kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};  // of the kinds of values

std::string any_value(Random &random, uint32_t type, int depth);

std::string any_array(Random &random, int depth) {
  const auto type = static_cast<uint32_t>(random.below(depth > 9 ? 9 : 13));
  const size_t count = random.below(4);
  std::string elements;
  for (size_t i = 0; i < count; ++i) elements += any_value(random, type, depth + 1);
  return gguf::array(type, count, elements);
}

std::string any_value(Random &random, uint32_t type, int depth) {
  if (type == gguf::kString) return gguf::text(depth ? "\xff\x00" : random.pick(kTexts));
  if (type == gguf::kArray) return any_array(random, depth);
  if (type == gguf::kBool) return gguf::le(random.one_in(40) ? 2 : random.below(2), 1);
  return gguf::le(random.one_in(2) ? random.pick(kNumbers) : random.next(), kSizes[type]);
}

// Keys, with alignment and split now and then.
void add_keys(gguf::File &file, Random &random) {
  if (random.one_in(4)) {
    file.alignment = uint64_t{8} << random.below(6);
    file.keys.push_back(gguf::key("general.alignment", gguf::kUint32, gguf::u32(file.alignment)));
  }
  if (random.one_in(6)) {
    file.keys.push_back(gguf::key("split.no", gguf::kUint16, gguf::u16(random.below(4))));
    file.keys.push_back(gguf::key("split.count", gguf::kUint16, gguf::u16(random.below(5))));
    if (random.one_in(2)) {
      file.keys.push_back(gguf::key("split.tensors.count", gguf::kInt32, gguf::u32(7)));
    }
  }
  for (size_t i = random.below(5); i > 0; --i) {
    const auto type = static_cast<uint32_t>(random.below(random.one_in(30) ? 15 : 13));
    const std::string name =
        random.one_in(8) ? random.pick(kTexts) : fmt::format("k{}", file.keys.size());
    file.keys.push_back(gguf::key(name, type, type < 13 ? any_value(random, type, 0) : "xxxx"));
  }
  for (std::string &key : file.keys) std::swap(key, file.keys[random.below(file.keys.size())]);
}

// A few tensors, one after the other, with holes now and then.
void add_tensors(gguf::File &file, Random &random) {
  for (size_t i = random.below(6); i > 0; --i) {
    const PlainType &type = random.pick(kTypes);
    std::vector<uint64_t> dimensions;
    uint64_t bytes = type.bytes;
    const size_t count = type.elements > 1 ? 1 + random.below(4) : random.below(5);
    for (size_t d = 0; d < count; ++d) {
      const uint64_t dimension = random.one_in(12) ? 0 : 1 + random.below(4);
      dimensions.push_back(d == 0 ? dimension * type.elements : dimension);
      bytes *= dimension;
    }
    const std::string name =
        random.one_in(20) ? random.pick(kTexts) : fmt::format("t{}", file.tensors.size());
    file.tensors.push_back(gguf::tensor(name, dimensions, type.number, file.data.size()));
    file.data.append(bytes, 'x');
    if (i == 1 && random.one_in(2)) break;  // the last one without its padding
    file.data.resize((file.data.size() + file.alignment - 1) / file.alignment * file.alignment);
    if (random.one_in(10)) file.data.append(file.alignment * random.below(3), 'h');
  }
  for (std::string &info : file.tensors) {
    std::swap(info, file.tensors[random.below(file.tensors.size())]);
  }
}

std::string good_file(Random &random) {
  gguf::File file;
  file.version = random.one_in(2) ? 3 : 2;
  add_keys(file, random);
  add_tensors(file, random);
  if (random.one_in(20)) file.tensor_count = file.tensors.size() + random.below(3) - 1;
  if (random.one_in(20)) file.key_count = random.pick(kNumbers);
  return file.bytes();
}

// Most of a file may be data; what is changed lies in the header, more often near its start.
size_t any_place(const std::string &bytes, Random &random) {
  const size_t bound = random.one_in(4) ? bytes.size() : std::min<size_t>(bytes.size(), 400);
  return random.below(bound);
}

void change(std::string &bytes, Random &random) {
  if (bytes.empty()) return;
  const size_t at = any_place(bytes, random);
  switch (random.below(7)) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8)));
      break;
    case 1:
      bytes.erase(at, 1 + random.below(9));
      break;
    case 2:
      bytes.insert(at, 1 + random.below(8), static_cast<char>(random.below(256)));
      break;
    case 3: {
      const std::string number = gguf::le(random.pick(kNumbers), random.one_in(2) ? 4 : 8);
      bytes.replace(at, std::min(number.size(), bytes.size() - at), number);
      break;
    }
    case 4:
      bytes[at] = static_cast<char>(bytes[at] + static_cast<char>(random.below(9)) - 4);
      break;
    case 5:
      bytes.resize(random.one_in(2) ? at : bytes.size() - random.below(9) % bytes.size());
      break;
    default:
      bytes.append(random.below(40), 'z');
  }
}

std::string make_file(const std::vector<std::string> &corpus, Random &random) {
  std::string bytes = random.one_in(2) ? good_file(random) : random.pick(corpus);
  for (size_t changes = random.below(4); changes > 0; --changes) change(bytes, random);
  return bytes;
}

#endif

}  // namespace

#ifdef SLUICE_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compare(std::string(reinterpret_cast<const char *>(data), size), false);
  return 0;
}

#else

int main(int count, char **arguments) { return fuzz::run(count, arguments, make_file, compare); }

#endif

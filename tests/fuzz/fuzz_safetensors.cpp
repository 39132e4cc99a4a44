// Fuzzes the safetensors header parser against a plain validator over a JSON tree: both must agree
// on whether a file is good, and on every field of a good one.
// fuzz.h says how it is run; with -DSLUICE_LIBFUZZER it is a libFuzzer target.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/types.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fuzz::fail;
using fuzz::Random;
using sluice::FileHeader;

// ---- What both sides say of a file

struct Tensor {
  std::string type;
  std::vector<uint64_t> shape;
  uint64_t begin, end;
  bool operator==(const Tensor &) const = default;
};
struct Contents {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
  bool operator==(const Contents &) const = default;
};
using Verdict = std::optional<Contents>;

// ---- The plain validator

constexpr std::pair<const char *, unsigned> kTypes[] = {
    {"BOOL", 8},    {"U8", 8},       {"I8", 8},       {"U16", 16},        {"I16", 16},
    {"U32", 32},    {"I32", 32},     {"U64", 64},     {"I64", 64},        {"F16", 16},
    {"BF16", 16},   {"F32", 32},     {"F64", 64},     {"F8_E4M3", 8},     {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F4", 4},       {"F6_E2M3", 6},  {"F6_E3M2", 6},     {"C64", 64},
    {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}};

struct Invalid {};

void demand(bool condition) {
  if (!condition) throw Invalid();
}

// The tree of a text without duplicate keys in its two outer levels, at most 127 deep.
nlohmann::json plain_tree(const std::string &text) {
  using Event = nlohmann::json::parse_event_t;
  bool good = true;
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Event event, nlohmann::json &value) {
    const auto level = static_cast<size_t>(depth);
    if (event == Event::object_start || event == Event::array_start) {
      good = good && depth < 127;
      keys.resize(level + 1);
      keys.push_back({});
    } else if (event == Event::key) {
      keys.resize(level + 1);
      if (!keys[level].insert(value.get<std::string>()).second && depth <= 2) good = false;
    }
    return true;
  };
  nlohmann::json tree = nlohmann::json::parse(text, watch, false);
  demand(good && tree.is_object());
  return tree;
}

uint64_t plain_number(const nlohmann::json &value) {
  demand(value.is_number_unsigned());
  return value.get<uint64_t>();
}

Tensor plain_tensor(const nlohmann::json &value) {
  demand(value.is_object() && value.contains("dtype") && value.contains("shape") &&
         value.contains("data_offsets"));
  demand(value["dtype"].is_string() && value["shape"].is_array());
  demand(value["data_offsets"].is_array() && value["data_offsets"].size() == 2);
  Tensor tensor = {value["dtype"], {}, plain_number(value["data_offsets"][0]),
                   plain_number(value["data_offsets"][1])};
  unsigned bits = 0;
  for (const auto &[name, width] : kTypes) {
    if (tensor.type == name) bits = width;
  }
  demand(bits != 0 && tensor.begin <= tensor.end && value["shape"].size() <= 64);
  unsigned __int128 size = 1;
  for (const auto &dimension : value["shape"]) {
    tensor.shape.push_back(plain_number(dimension));
    size *= tensor.shape.back();
    demand(size <= UINT64_MAX);
  }
  size *= bits;
  demand(size <= UINT64_MAX && size % 8 == 0 && size / 8 == tensor.end - tensor.begin);
  return tensor;
}

// Walks from byte 0, each time with a tensor that starts where the last one ended.
void plain_cover(const Contents &contents, uint64_t data_bytes) {
  std::vector<const Tensor *> left;
  for (const auto &[name, tensor] : contents.tensors) left.push_back(&tensor);
  uint64_t at = 0;
  while (!left.empty()) {
    auto next = left.end();
    for (auto i = left.begin(); i != left.end(); ++i) {
      if ((*i)->begin == at && (next == left.end() || (*i)->end == at)) next = i;
    }
    demand(next != left.end());
    at = (*next)->end;
    left.erase(next);
  }
  demand(at == data_bytes);
}

Verdict plain_verdict(const std::string &file) try {
  demand(file.size() >= 8);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);  // machines that run this are little-endian
  demand(length <= 100'000'000 && length <= file.size() - 8);
  const std::string json = file.substr(8, length);
  demand(json.starts_with('{') && json.find('\0') == json.npos);
  const nlohmann::json tree = plain_tree(json);
  Contents contents;
  const auto no_nul = [](const std::string &text) {
    demand(text.find('\0') == text.npos);
    return text;
  };
  for (const auto &[name, value] : tree.items()) {
    if (name != "__metadata__") {
      contents.tensors.emplace(no_nul(name), plain_tensor(value));
    } else if (!value.is_null()) {
      demand(value.is_object());
      for (const auto &[key, text] : value.items()) {
        demand(text.is_string());
        contents.metadata.emplace(no_nul(key), no_nul(text.get<std::string>()));
      }
    }
  }
  plain_cover(contents, file.size() - 8 - length);
  return contents;
} catch (const Invalid &) {
  return {};
}

// ---- The parser under test

struct Answer {
  Verdict verdict;
  std::string message;
};

Answer parser_answer(const std::string &file, bool canary) {
  const auto *bytes = reinterpret_cast<const unsigned char *>(file.data());
  auto length =
      sluice::safetensors_header_bytes({bytes, std::min<size_t>(file.size(), 8)}, file.size());
  if (!length.ok()) return {{}, length.status().record().message};
  uint64_t data_bytes = file.size() - 8 - length.value();
  if (canary) data_bytes -= data_bytes % 2;  // the last byte is overlooked
  auto parsed = sluice::parse_safetensors_header(
      std::string_view(file).substr(8, length.value()), data_bytes);
  if (!parsed.ok()) {
    const sluice_status code = parsed.status().code();
    if (code != SLUICE_BAD_FORMAT && code != SLUICE_END_OF_FILE) {
      fail(file, fmt::format("status {}", static_cast<int>(code)));
    }
    return {{}, parsed.status().record().message};
  }
  const FileHeader &header = parsed.value();
  Contents contents;
  uint64_t at = 0;
  for (uint64_t i = 0; i < header.tensor_count(); ++i) {
    const sluice::HeaderTensor tensor = header.tensor(i);
    if (tensor.begin != at) fail(file, "tensors aren't in the order of their offsets");
    if (tensor.name.data()[tensor.name.size()] != '\0') fail(file, "a name without its end");
    at = tensor.end;
    contents.tensors[std::string(tensor.name)] = {sluice::type_name(tensor.type),
                                                  {tensor.shape.begin(), tensor.shape.end()},
                                                  tensor.begin,
                                                  tensor.end};
  }
  if (contents.tensors.size() != header.tensor_count()) fail(file, "a name is there twice");
  for (uint64_t i = 0; i < header.metadata_count(); ++i) {
    contents.metadata.insert(header.metadata(i));
  }
  return {contents, ""};
}

// Whether both accept.
bool compare(const std::string &file, bool canary) {
  const Answer answer = parser_answer(file, canary);
  return fuzz::same_answer(file, answer, plain_verdict(file));
}

#ifndef SLUICE_LIBFUZZER

// ---- Files to try

const char *const kTexts[] = {
    "a", "b", "", "__metadata__", "dtype", "shape", "data_offsets", "x", "\\u0061", "\\u0000",
    "\\ud83d\\ude00", "\\ud800", "\\\"", "\\n", "\xc3\xa9", "\xff", "F32", "U8", "F4", "F6_E3M2",
    "BF16", "F33", "\\u005f_metadata__", "layers.0.w"};
const char *const kValues[] = {
    "0", "1", "2", "4", "-1", "-0", "1.0", "0.5", "1e2", "1e400", "9223372036854775808",
    "18446744073709551615", "18446744073709551616", "4294967296", "null", "true", "[]", "{}", "[0]",
    "[0,0]", "[0,4]", "\"\"", "\"U8\"", "{\"a\":\"b\"}", "[[[[]]]]", "01", "+1", "tru", "NaN"};
const char *const kPieces[] = {"{", "}", "[", "]", ",", ":", "\"", " ", "\n", "\\", "//", "\0x",
                               "\xef\xbb\xbf", "\x7f", "\t", "\v"};

struct File {
  std::string json;
  uint64_t data_bytes = 0;
  int64_t length_off_by = 0;

  std::string bytes() const {
    const uint64_t length = json.size() + static_cast<uint64_t>(length_off_by);
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + json + std::string(data_bytes, 'x');
  }
  static File of(const std::string &bytes) {
    File file;
    uint64_t length = 0;
    if (bytes.size() < 8) return file;
    std::memcpy(&length, bytes.data(), 8);
    length = std::min<uint64_t>(length, bytes.size() - 8);
    file.json = bytes.substr(8, length);
    file.data_bytes = bytes.size() - 8 - length;
    return file;
  }
};

// A good file of a few tensors, its members in any order.
File good_file(Random &random) {
  File file;
  std::vector<std::string> members;
  const size_t count = random.below(6);
  for (size_t i = 0; i < count; ++i) {
    const auto &[type, bits] = random.pick(kTypes);
    std::string shape;
    uint64_t elements = 1;
    const size_t dimensions = random.one_in(40) ? 60 + random.below(8) : random.below(4);
    for (size_t d = 0; d < dimensions; ++d) {
      const uint64_t dimension = dimensions > 4 ? 1 : random.one_in(12) ? 0 : 1 + random.below(4);
      elements *= dimension;
      shape += fmt::format("{}{}", d ? "," : "", dimension);
    }
    const uint64_t end = file.data_bytes + elements * bits / 8;
    std::vector<std::string> keys = {
        fmt::format("\"dtype\":\"{}\"", type), fmt::format("\"shape\":[{}]", shape),
        fmt::format("\"data_offsets\":[{},{}]", file.data_bytes, end)};
    if (random.one_in(6)) keys.push_back(fmt::format("\"x\":{}", random.pick(kValues)));
    std::swap(keys[0], keys[random.below(keys.size())]);
    file.data_bytes = end;
    members.push_back(fmt::format("\"n{}\":{{{}}}", i, fmt::join(keys, ",")));
  }
  if (random.one_in(3)) {
    members.push_back(random.one_in(4) ? "\"__metadata__\":null"
                                       : fmt::format("\"__metadata__\":{{\"{}\":\"{}\"}}",
                                                     random.pick(kTexts), random.pick(kTexts)));
  }
  for (std::string &member : members) std::swap(member, members[random.below(members.size())]);
  file.json = fmt::format("{{{}}}{}", fmt::join(members, random.one_in(4) ? " ,\n" : ","),
                          std::string(random.below(9), ' '));
  return file;
}

// [begin, end) of a token of JSON: a string with its quotes, a number or word, or one character.
std::pair<size_t, size_t> token_at(const std::string &json, size_t begin) {
  size_t end = begin + 1;
  if (json[begin] == '"') {
    while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
    end = std::min(end + 1, json.size());
  } else if (std::isalnum(static_cast<unsigned char>(json[begin]))) {
    while (end < json.size() && std::isalnum(static_cast<unsigned char>(json[end]))) ++end;
  }
  return {begin, end};
}

std::vector<std::pair<size_t, size_t>> tokens_of(const std::string &json) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t at = 0; at < json.size(); at = out.back().second) out.push_back(token_at(json, at));
  return out;
}

std::pair<size_t, size_t> any_token(const std::string &json, Random &random) {
  const auto tokens = tokens_of(json);
  return random.pick(tokens);
}

// From a token to the comma or bracket that ends its member.
std::string member_at(const std::string &json, size_t begin) {
  int depth = 0;
  size_t end = begin;
  for (; end < json.size(); end = token_at(json, end).second) {
    const char c = json[end];
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth < 0) break;
    if (c == ',' && depth == 0) break;
  }
  return json.substr(begin, end - begin);
}

void change_token(File &file, Random &random) {
  const auto [begin, end] = any_token(file.json, random);
  const std::string token = file.json.substr(begin, end - begin);
  std::string with;
  if (token[0] == '"' && !random.one_in(4)) {
    with = fmt::format("\"{}\"", random.pick(kTexts));
  } else if (token.size() < 9 && std::all_of(token.begin(), token.end(), ::isdigit) &&
             random.one_in(2)) {
    with = std::to_string(std::stol(token) + static_cast<long>(random.below(9)) - 4);
  } else {
    with = random.one_in(2) ? random.pick(kValues) : random.pick(kPieces);
  }
  file.json.replace(begin, end - begin, with);
}

void change_member(File &file, Random &random) {
  const auto [begin, end] = any_token(file.json, random);
  const std::string member = member_at(file.json, begin);
  if (random.one_in(3)) {
    file.json.erase(begin, member.size());
  } else {
    const auto [to, unused] = any_token(file.json, random);
    file.json.insert(random.one_in(2) ? begin : to, member + ",");
  }
}

void change_bytes(File &file, Random &random) {
  const size_t at = random.below(file.json.size());
  switch (random.below(3)) {
    case 0:
      file.json[at] = static_cast<char>(file.json[at] ^ (1 << random.below(8)));
      break;
    case 1:
      file.json.erase(at, 1 + random.below(4));
      break;
    default:
      file.json.insert(at, 1, static_cast<char>(random.below(256)));
  }
}

void change(File &file, Random &random) {
  if (file.json.empty() || random.one_in(12)) {
    file.data_bytes += random.below(9);
    file.data_bytes -= std::min<uint64_t>(file.data_bytes, random.below(9));
  } else if (random.one_in(20)) {
    file.length_off_by = random.one_in(4) ? static_cast<int64_t>(random.next())
                                          : static_cast<int64_t>(random.below(9)) - 4;
  } else if (random.one_in(20)) {
    const size_t depth = 120 + random.below(12);
    file.json.insert(any_token(file.json, random).first,
                     std::string(depth, '[') + std::string(depth, ']'));
  } else if (random.one_in(4)) {
    change_bytes(file, random);
  } else if (random.one_in(3)) {
    change_member(file, random);
  } else {
    change_token(file, random);
  }
}

std::string make_file(const std::vector<std::string> &corpus, Random &random) {
  File file = corpus.empty() || random.one_in(2) ? good_file(random)
                                                 : File::of(random.pick(corpus));
  for (size_t changes = random.below(4); changes > 0; --changes) change(file, random);
  return file.bytes();
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

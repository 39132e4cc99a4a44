// Fuzzes the safetensors header parser against a plain validator over a JSON tree: both must agree
// on whether a file is good, and on every field of a good one.
//
//   fuzz_safetensors [--seed N] [--seconds S | --runs N] [--first N] [--canary] CORPUS_DIRECTORY
//
// The corpus is replayed first. Then each run makes one file, either from a model of a good one or
// from the corpus, and changes it a few times. A run depends on the seed and its own number only,
// so that a disagreement is repeated with --seed, --first and --runs 1. --canary hides a bug in the
// parser's answer, which has to be found. With -DSLUICE_LIBFUZZER it is a libFuzzer target.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "io/types.h"

namespace {

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

std::string how_to_repeat;

[[noreturn]] void fail(const std::string &file, const std::string &what) {
  std::string hex;
  for (const char c : file.substr(0, 4096)) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  fmt::print("DISAGREEMENT: {}\nfile: {}\nrepeat: {}\n", what, hex, how_to_repeat);
  std::fflush(stdout);
#ifdef SLUICE_LIBFUZZER
  std::abort();
#else
  std::exit(1);
#endif
}

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
  const Verdict plain = plain_verdict(file);
  if (answer.verdict.has_value() != plain.has_value()) {
    fail(file, fmt::format("the parser {} what the plain validator {}: {}",
                           answer.verdict ? "accepts" : "refuses", plain ? "accepts" : "refuses",
                           answer.message));
  }
  if (answer.verdict != plain) fail(file, "different contents");
  if (!answer.verdict) {
    // A message is printed, also as JSON: it must be text, and of bounded length.
    if (answer.message.empty() || answer.message.size() > 2000) fail(file, "message length");
    nlohmann::json(answer.message).dump();
  }
  return plain.has_value();
}

#ifndef SLUICE_LIBFUZZER

// ---- Files to try

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x1234567u) {
    if (state_ == 0) state_ = 1;
    for (int i = 0; i < 8; ++i) next();
  }
  uint64_t next() {  // xorshift64*
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  size_t below(size_t bound) { return static_cast<size_t>(next() >> 16) % bound; }
  bool one_in(size_t n) { return below(n) == 0; }
  template <typename List>
  const auto &pick(const List &list) {
    return list[below(std::size(list))];
  }

 private:
  uint64_t state_;
};

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

std::string make_file(const std::vector<std::string> &corpus, uint64_t seed, uint64_t run) {
  Random random(seed * 1'000'003 + run);
  File file = corpus.empty() || random.one_in(2) ? good_file(random)
                                                 : File::of(random.pick(corpus));
  for (size_t changes = random.below(4); changes > 0; --changes) change(file, random);
  return file.bytes();
}

// ---- The program

struct Settings {
  uint64_t seed =
      static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  double seconds = 10;
  uint64_t first = 0;
  uint64_t runs = UINT64_MAX;
  bool canary = false;
  std::string corpus;
};

bool take_arguments(int count, char **arguments, Settings &settings) {
  for (int i = 1; i < count; ++i) {
    const std::string name = arguments[i];
    const bool has_value = i + 1 < count;
    if (name == "--canary") {
      settings.canary = true;
    } else if (name == "--seed" && has_value) {
      settings.seed = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--first" && has_value) {
      settings.first = std::strtoull(arguments[++i], nullptr, 10);
    } else if (name == "--seconds" && has_value) {
      settings.seconds = std::strtod(arguments[++i], nullptr);
    } else if (name == "--runs" && has_value) {
      settings.runs = std::strtoull(arguments[++i], nullptr, 10);
      settings.seconds = 1e9;
    } else if (!name.starts_with("--") && settings.corpus.empty()) {
      settings.corpus = name;
    } else {
      return false;
    }
  }
  return !settings.corpus.empty();
}

std::vector<std::string> read_corpus(const std::string &directory) {
  std::vector<std::filesystem::path> paths;
  for (const auto &entry : std::filesystem::directory_iterator(directory)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const auto &path : paths) {
    std::ifstream stream(path, std::ios::binary);
    out.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  return out;
}

#endif

}  // namespace

#ifdef SLUICE_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  compare(std::string(reinterpret_cast<const char *>(data), size), false);
  return 0;
}

#else

int main(int count, char **arguments) {
  Settings settings;
  if (!take_arguments(count, arguments, settings)) {
    fmt::print(stderr, "usage: fuzz_safetensors [--seed N] [--seconds S | --runs N] [--first N] "
                       "[--canary] CORPUS_DIRECTORY\n");
    return 2;
  }
  const std::vector<std::string> corpus = read_corpus(settings.corpus);
  if (corpus.size() < 10) {
    fmt::print("the corpus in {} has only {} files\n", settings.corpus, corpus.size());
    return 1;
  }
  size_t replayed_good = 0;
  how_to_repeat = "replay the corpus";
  // The canary has to be found by what is made here, not by the corpus.
  for (const std::string &file : corpus) replayed_good += compare(file, false);
  fmt::print("corpus: {} files, {} good\nseed: {}\n", corpus.size(), replayed_good,
             settings.seed);
  std::fflush(stdout);

  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  uint64_t done = 0, good = 0;
  for (; done < settings.runs && (done % 256 != 0 || seconds() < settings.seconds); ++done) {
    const uint64_t run = settings.first + done;
    how_to_repeat = fmt::format("--seed {} --first {} --runs 1", settings.seed, run);
    const std::string file = make_file(corpus, settings.seed, run);
    good += compare(file, settings.canary);
  }
  fmt::print("{} runs, {} good files, {:.1f} s\n", done, good, seconds());
  if (done >= 1000 && (good < done / 20 || good > done - done / 20)) {
    fmt::print("too one-sided to mean much\n");
    return 1;
  }
  return 0;
}

#endif

// The GGUF header parser: what it makes of a good file, every kind of bad one with its status and
// what its message names, that pieces don't change the answer, and what the gguf package's reader
// says of the same files (gguf_verdicts.json, made by gguf_verdicts.py).
#include <doctest.h>

#include <bit>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "io/gguf.h"
#include "io/gguf_set.h"
#include "io/types.h"
#include "io/utf8.h"
#include "tests/support/gguf.h"

using namespace sluice;
using namespace support::gguf;

namespace {

Result<GgufParse> parse_start(std::string_view start, uint64_t file_bytes) {
  return parse_gguf_header({reinterpret_cast<const unsigned char *>(start.data()), start.size()},
                           file_bytes);
}

// Parses a whole file, all of which is at hand.
Result<GgufHeader> parse(const std::string &file) {
  auto parsed = parse_start(file, file.size());
  if (!parsed.ok()) return parsed.take_status();
  REQUIRE(parsed.value().header.has_value());
  return std::move(*parsed.value().header);
}

void check_bad(const char *label, const std::string &file, sluice_status code,
               const std::vector<std::string> &says) {
  CAPTURE(label);
  auto parsed = parse_start(file, file.size());
  REQUIRE(!parsed.ok());
  const std::string message = parsed.status().record().message;
  CAPTURE(message);
  CHECK(parsed.status().code() == code);
  CHECK(is_utf8(message));
  for (const std::string &part : says) {
    CAPTURE(part);
    CHECK(message.find(part) != message.npos);
  }
}

File file_with(const std::string &key) {
  File file;
  file.keys = {key};
  return file;
}

// One tensor of F32 [4] whose info is `info`, before 16 bytes of data.
File file_of(const std::vector<std::string> &tensors, size_t data_bytes = 16) {
  File file;
  file.tensors = tensors;
  file.data = std::string(data_bytes, 'x');
  return file;
}

std::map<std::string, std::string> metadata_of(const FileHeader &header) {
  std::map<std::string, std::string> out;
  for (uint64_t i = 0; i < header.metadata_count(); ++i) {
    const auto [key, value] = header.metadata(i);
    CHECK(key.data()[key.size()] == '\0');
    CHECK(value.data()[value.size()] == '\0');
    out.emplace(key, value);
  }
  return out;
}

File all_kinds() {
  File file;
  file.keys = {
      key("a.u8", kUint8, le(200, 1)),
      key("a.i8", kInt8, le(0xFE, 1)),
      key("a.u16", kUint16, le(65535, 2)),
      key("a.i16", kInt16, le(0x8000, 2)),
      key("a.u32", kUint32, u32(4294967295)),
      key("a.i32", kInt32, u32(static_cast<uint32_t>(-7))),
      key("a.f32", kFloat32, u32(std::bit_cast<uint32_t>(1e-5F))),
      key("a.yes", kBool, le(1, 1)),
      key("a.no", kBool, le(0, 1)),
      key("a.text", kString, text("caf\xc3\xa9")),
      key("a.empty", kString, text("")),
      key("a.u64", kUint64, u64(UINT64_MAX)),
      key("a.i64", kInt64, u64(uint64_t{1} << 63)),
      key("a.f64", kFloat64, u64(std::bit_cast<uint64_t>(0.1))),
      key("a.strings", kArray, array(kString, 2, text("x") + text("\xff\0z"))),
      key("a.numbers", kArray, array(kInt16, 3, std::string(6, 'n'))),
      key("a.bools", kArray, array(kBool, 2, std::string("\0\1", 2))),
      key("a.none", kArray, array(kFloat64, 0, "")),
      key("a.nested", kArray,
          array(kArray, 2, array(kUint8, 2, "ab") + array(kString, 1, text("c")))),
  };
  return file;
}

}  // namespace

TEST_CASE("a good file: types, turned shapes, places and holes") {
  File file = file_of({tensor("late", {256, 3}, kQ4_K, 64), tensor("early", {4, 2, 3, 1}, kF16, 0),
                       tensor("scalar", {}, kF32, 1024), tensor("none", {32, 0}, kQ4_0, 512)},
                      2000);
  for (const uint32_t version : {2U, 3U}) {
    file.version = version;
    auto parsed = parse(file.bytes());
    REQUIRE(parsed.ok());
    const FileHeader &header = parsed.value().header;
    CHECK(parsed.value().data_offset == (file.header().size() + 31) / 32 * 32);
    CHECK(!parsed.value().split);
    REQUIRE(header.tensor_count() == 4);
    CHECK(header.data_bytes() == 48 + 3 * 144 + 4);
    CHECK(header.tensor(0).name == "early");
    CHECK(header.tensor(0).type == SLUICE_TYPE_F16);
    CHECK(std::vector<uint64_t>(header.tensor(0).shape.begin(), header.tensor(0).shape.end()) ==
          std::vector<uint64_t>{1, 3, 2, 4});
    CHECK(header.tensor(0).begin == 0);
    CHECK(header.tensor(0).end == 48);
    CHECK(header.tensor(1).name == "late");
    CHECK(header.tensor(1).type == SLUICE_TYPE_Q4_K);
    CHECK(header.tensor(1).shape[0] == 3);
    CHECK(header.tensor(1).shape[1] == 256);
    CHECK(header.tensor(1).end == 64 + 3 * 144);
    CHECK(header.tensor(2).name == "none");
    CHECK(header.tensor(2).begin == header.tensor(2).end);
    CHECK(header.tensor(3).shape.empty());
    CHECK(header.tensor(3).end == 1028);
    CHECK(header.tensor(3).name.data()[6] == '\0');
  }
}

TEST_CASE("every kind of value, and how it is shown") {
  auto parsed = parse(all_kinds().bytes());
  REQUIRE(parsed.ok());
  CHECK(metadata_of(parsed.value().header) ==
        std::map<std::string, std::string>{{"a.u8", "200"},
                                           {"a.i8", "-2"},
                                           {"a.u16", "65535"},
                                           {"a.i16", "-32768"},
                                           {"a.u32", "4294967295"},
                                           {"a.i32", "-7"},
                                           {"a.f32", "1e-05"},
                                           {"a.yes", "true"},
                                           {"a.no", "false"},
                                           {"a.text", "caf\xc3\xa9"},
                                           {"a.empty", ""},
                                           {"a.u64", "18446744073709551615"},
                                           {"a.i64", "-9223372036854775808"},
                                           {"a.f64", "0.1"},
                                           {"a.strings", "[string x 2]"},
                                           {"a.numbers", "[int16 x 3]"},
                                           {"a.bools", "[bool x 2]"},
                                           {"a.none", "[float64 x 0]"},
                                           {"a.nested", "[array x 2]"}});
}

TEST_CASE("every type of ggml has the place and the size that ggml gives it") {
  // Number in ggml, elements and bytes of a block, name.
  struct Known {
    uint32_t number;
    uint64_t elements, bytes;
    const char *name;
  };
  const Known known[] = {
      {0, 1, 4, "F32"},         {1, 1, 2, "F16"},         {2, 32, 18, "Q4_0"},
      {3, 32, 20, "Q4_1"},      {6, 32, 22, "Q5_0"},      {7, 32, 24, "Q5_1"},
      {8, 32, 34, "Q8_0"},      {9, 32, 36, "Q8_1"},      {10, 256, 84, "Q2_K"},
      {11, 256, 110, "Q3_K"},   {12, 256, 144, "Q4_K"},   {13, 256, 176, "Q5_K"},
      {14, 256, 210, "Q6_K"},   {15, 256, 292, "Q8_K"},   {16, 256, 66, "IQ2_XXS"},
      {17, 256, 74, "IQ2_XS"},  {18, 256, 98, "IQ3_XXS"}, {19, 256, 50, "IQ1_S"},
      {20, 32, 18, "IQ4_NL"},   {21, 256, 110, "IQ3_S"},  {22, 256, 82, "IQ2_S"},
      {23, 256, 136, "IQ4_XS"}, {24, 1, 1, "I8"},         {25, 1, 2, "I16"},
      {26, 1, 4, "I32"},        {27, 1, 8, "I64"},        {28, 1, 8, "F64"},
      {29, 256, 56, "IQ1_M"},   {30, 1, 2, "BF16"},       {34, 256, 54, "TQ1_0"},
      {35, 256, 66, "TQ2_0"},   {39, 32, 17, "MXFP4"},    {40, 64, 36, "NVFP4"},
      {41, 128, 18, "Q1_0"},
  };
  size_t found = 0;
  for (uint32_t number = 0; number < 100; ++number) {
    const Known *entry = nullptr;
    for (const Known &candidate : known) {
      if (candidate.number == number) entry = &candidate;
    }
    CAPTURE(number);
    const uint64_t elements = entry ? entry->elements : 256;
    const std::string file = file_of({tensor("t", {elements, 3}, number, 0)}, 3000).bytes();
    if (!entry) {
      check_bad("type", file, SLUICE_BAD_FORMAT, {"'t'", "unknown type"});
      continue;
    }
    auto parsed = parse(file);
    REQUIRE(parsed.ok());
    const HeaderTensor tensor_found = parsed.value().header.tensor(0);
    CHECK(type_name(tensor_found.type) == std::string(entry->name));
    CHECK(tensor_found.end == 3 * entry->bytes);
    ++found;
    if (elements > 1) {
      check_bad("row", file_of({tensor("t", {elements + elements / 2}, number, 0)}, 3000).bytes(),
                SLUICE_BAD_FORMAT, {"'t'", entry->name, "blocks of " + std::to_string(elements)});
    }
  }
  CHECK(found == std::size(known));
  check_bad("type", file_of({tensor("t", {4}, 0xFFFFFFFF, 0)}).bytes(), SLUICE_BAD_FORMAT,
            {"unknown type 4294967295"});
}

TEST_CASE("starts that are not those of a file that is read") {
  const std::string good = file_of({tensor("t", {4}, kF32, 0)}).bytes();
  check_bad("empty", "", SLUICE_END_OF_FILE, {"byte 0"});
  check_bad("short magic", "GGU", SLUICE_END_OF_FILE, {"only 3 follow"});
  check_bad("magic", "GGML" + good.substr(4), SLUICE_BAD_FORMAT, {"'GGUF'"});
  const auto version = [&](uint32_t number, const char *says) {
    check_bad(says, "GGUF" + u32(number) + good.substr(8), SLUICE_BAD_FORMAT, {says, "byte 4"});
  };
  version(0, "version 0; versions 2 and 3");
  version(1, "version 1, whose lengths have 32 bits");
  version(4, "version 4; versions 2 and 3");
  version(0x02000000, "big-endian");
  version(0x03000000, "big-endian");
  File lies = file_of({tensor("t", {4}, kF32, 0)});
  lies.tensor_count = 100;
  check_bad("tensors", lies.bytes(), SLUICE_END_OF_FILE, {"100 tensors", "cut off", "byte 8"});
  lies.tensor_count = UINT64_MAX;
  check_bad("tensors", lies.bytes(), SLUICE_BAD_FORMAT, {"18446744073709551615 tensors"});
  lies.tensor_count = 2;
  check_bad("tensors", lies.bytes(), SLUICE_BAD_FORMAT, {"tensor 2 of 2"});
  lies.tensor_count.reset();
  lies.key_count = 50;
  check_bad("keys", lies.bytes(), SLUICE_END_OF_FILE, {"50 keys", "cut off", "byte 16"});
  lies.key_count = uint64_t{1} << 63;
  check_bad("keys", lies.bytes(), SLUICE_BAD_FORMAT, {"9223372036854775808 keys"});
}

TEST_CASE("keys and values that are not what the format demands") {
  const auto bad = [](const std::string &key, sluice_status code,
                      const std::vector<std::string> &says) {
    File file = file_with(key);
    file.key_count = 1;
    check_bad(says.back().c_str(), file.bytes(), code, says);
  };
  const std::string one = u32(1);
  bad(key("", kUint32, one), SLUICE_BAD_FORMAT, {"key 1 of 1", "empty", "byte 32"});
  bad(key(std::string(65536, 'k'), kUint32, one), SLUICE_BAD_FORMAT,
      {"key 1 of 1", "65536 bytes, more than 65535", "byte 24"});
  bad(key(std::string("k\0", 2), kUint32, one), SLUICE_BAD_FORMAT, {"key 1 of 1", "NUL"});
  bad(key("k\xff", kUint32, one), SLUICE_BAD_FORMAT, {"key 1 of 1", "UTF-8"});
  bad(key("k", 13, one), SLUICE_BAD_FORMAT, {"'k'", "unknown type 13", "byte 33"});
  bad(key("k", UINT32_MAX, one), SLUICE_BAD_FORMAT, {"'k'", "unknown type 4294967295"});
  bad(key("k", kBool, le(2, 1)), SLUICE_BAD_FORMAT, {"'k'", "a bool is 2", "byte 37"});
  bad(key("k", kUint64, one), SLUICE_END_OF_FILE, {"'k'", "8 bytes", "only 4 follow", "byte 37"});
  bad(key("k", kString, u64(9) + "12345678"), SLUICE_END_OF_FILE,
      {"'k'", "9 bytes", "only 8 follow", "byte 45"});
  bad(key("k", kString, u64(UINT64_MAX)), SLUICE_BAD_FORMAT, {"'k'", "18446744073709551615 bytes"});
  bad(key("k", kString, text(std::string("a\0b", 3))), SLUICE_BAD_FORMAT, {"'k'", "value", "NUL"});
  bad(key("k", kString, text("\xed\xa0\x80")), SLUICE_BAD_FORMAT, {"'k'", "value", "UTF-8"});
  bad(u64(UINT64_MAX) + "keyskeyskeyskeys", SLUICE_BAD_FORMAT, {"key 1 of 1", "more than 65535"});
  bad(u64(90) + "keyskeyskeyskeys", SLUICE_END_OF_FILE, {"key 1 of 1", "only 16 follow"});
}

TEST_CASE("arrays that are not what the format demands") {
  const auto bad = [](const std::string &value, sluice_status code,
                      const std::vector<std::string> &says) {
    check_bad(says.back().c_str(), file_with(key("k", kArray, value)).bytes(), code, says);
  };
  bad(array(13, 0, ""), SLUICE_BAD_FORMAT, {"'k'", "array is of the unknown type 13", "byte 37"});
  bad(array(kUint32, 3, u64(0)), SLUICE_END_OF_FILE, {"'k'", "3 numbers", "only 8 bytes follow"});
  bad(array(kUint64, uint64_t{1} << 61, u64(0)), SLUICE_BAD_FORMAT, {"'k'", "2305843009213693952"});
  bad(array(kString, 3, text("a") + text("b")), SLUICE_END_OF_FILE, {"'k'", "3 strings"});
  bad(array(kString, 2, text("a") + u64(5) + "1234"), SLUICE_END_OF_FILE,
      {"'k'", "5 bytes", "only 4 follow"});
  bad(array(kString, 1, u64(UINT64_MAX)), SLUICE_BAD_FORMAT, {"'k'", "18446744073709551615 bytes"});
  bad(array(kString, UINT64_MAX, ""), SLUICE_BAD_FORMAT, {"'k'", "18446744073709551615 strings"});
  bad(array(kArray, UINT64_MAX, ""), SLUICE_BAD_FORMAT, {"'k'", "18446744073709551615 arrays"});
  bad(array(kBool, UINT64_MAX, ""), SLUICE_BAD_FORMAT, {"'k'", "18446744073709551615 bools"});
  bad(array(kArray, 2, array(kUint8, 0, "")), SLUICE_END_OF_FILE, {"'k'", "2 arrays"});
  bad(array(kBool, 3, std::string("\1\0\3", 3)), SLUICE_BAD_FORMAT,
      {"'k'", "a bool is 3", "byte 51"});
  std::string nested = array(kUint8, 1, "x");
  for (int depth = 1; depth < 8; ++depth) nested = array(kArray, 1, nested);
  CHECK(parse(file_with(key("k", kArray, nested)).bytes()).ok());
  bad(array(kArray, 1, nested), SLUICE_BAD_FORMAT, {"'k'", "deeper than 8"});
}

TEST_CASE("names that are there twice") {
  File file;
  file.keys = {key("a", kUint8, "x"), key("b", kUint8, "x"), key("a", kBool, le(0, 1))};
  check_bad("keys", file.bytes(), SLUICE_BAD_FORMAT, {"key 'a'", "twice"});
  file.keys = split_keys(0, 1, 0);
  file.keys.push_back(file.keys[1]);
  check_bad("keys", file.bytes(), SLUICE_BAD_FORMAT, {"key 'split.count'", "twice"});
  check_bad(
      "tensors",
      file_of({tensor("a", {4}, kF32, 0), tensor("b", {4}, kF32, 32), tensor("a", {4}, kF32, 64)},
              96)
          .bytes(),
      SLUICE_BAD_FORMAT, {"tensor 'a'", "twice", "first at byte 24", "byte 90"});
}

TEST_CASE("tensors that are not what the format demands") {
  const auto bad = [](const std::string &info, sluice_status code,
                      const std::vector<std::string> &says) {
    check_bad(says.back().c_str(), file_of({info}).bytes(), code, says);
  };
  CHECK(parse(file_of({tensor("t", {4}, kF32, 0)}).bytes()).ok());
  CHECK(parse(file_of({tensor("", {4}, kF32, 0)}).bytes()).ok());
  bad(tensor(std::string("t\0", 2), {4}, kF32, 0), SLUICE_BAD_FORMAT, {"tensor 1 of 1", "NUL"});
  bad(tensor("t\xc0\x80", {4}, kF32, 0), SLUICE_BAD_FORMAT, {"tensor 1 of 1", "UTF-8"});
  bad(tensor(std::string(65536, 't'), {4}, kF32, 0), SLUICE_BAD_FORMAT, {"tensor 1 of 1", "65536"});
  bad(tensor("t", {1, 1, 1, 1, 4}, kF32, 0), SLUICE_BAD_FORMAT, {"'t'", "5 dimensions", "byte 33"});
  bad(text("t") + u32(UINT32_MAX) + u64(0), SLUICE_BAD_FORMAT, {"'t'", "4294967295 dimensions"});
  bad(tensor("t", {4, uint64_t{1} << 63}, kF32, 0), SLUICE_BAD_FORMAT,
      {"'t'", "dimension 1 is 9223372036854775808"});
  bad(tensor("t", {1U << 31, 1U << 31, 8}, kF32, 0), SLUICE_BAD_FORMAT,
      {"'t'", "F32 [8, 2147483648, 2147483648]", "overflows"});
  bad(tensor("t", {uint64_t{1} << 62}, kF32, 0), SLUICE_BAD_FORMAT, {"'t'", "overflows"});
  bad(tensor("t", {31}, kQ4_0, 0), SLUICE_BAD_FORMAT, {"'t'", "Q4_0 [31]", "blocks of 32"});
  bad(tensor("t", {}, kQ4_0, 0), SLUICE_BAD_FORMAT, {"'t'", "Q4_0 []", "blocks of 32"});
  bad(tensor("t", {4, 8}, kQ4_0, 0), SLUICE_BAD_FORMAT, {"'t'", "Q4_0 [8, 4]", "rows of 4"});
  bad(tensor("t", {4}, kF32, 8), SLUICE_BAD_FORMAT, {"'t'", "8 isn't a multiple", "32", "byte 49"});
  bad(tensor("t", {4}, kF32, 0ULL - 32), SLUICE_END_OF_FILE, {"'t'", "18446744073709551584"});
  bad(tensor("t", {16}, kF32, 0ULL - 32), SLUICE_BAD_FORMAT, {"'t'", "64 bytes overflow"});
  bad(tensor("t", {5}, kF32, 0), SLUICE_END_OF_FILE, {"'t'", "[0, 20)", "16 bytes of data"});
  bad(tensor("t", {4}, kF32, 32), SLUICE_END_OF_FILE, {"'t'", "[32, 48)", "16 bytes of data"});
  check_bad("cut off", file_of({tensor("t", {4}, kF32, 0).substr(0, 20)}, 0).bytes(),
            SLUICE_END_OF_FILE, {"'t'", "8 bytes", "only 7 follow", "byte 37"});
  check_bad("overlap",
            file_of({tensor("b", {9}, kF32, 32), tensor("a", {9}, kF32, 0)}, 100).bytes(),
            SLUICE_BAD_FORMAT, {"'b'", "[32, 68) overlap 'a' [0, 36)", "byte 24"});
  check_bad("by a byte",
            file_of({tensor("a", {33}, kI8, 0), tensor("b", {4}, kI8, 32)}, 100).bytes(),
            SLUICE_BAD_FORMAT, {"'b'", "[32, 36) overlap 'a' [0, 33)"});
  check_bad("by a byte", file_of({tensor("t", {4}, kF32, 0)}, 15).bytes(), SLUICE_END_OF_FILE,
            {"'t'", "[0, 16)", "15 bytes of data"});
  check_bad("same place",
            file_of({tensor("b", {9}, kF32, 0), tensor("a", {9}, kF32, 0)}, 100).bytes(),
            SLUICE_BAD_FORMAT, {"'a'", "overlap 'b'"});
  // The file ends where the data begin, or before.
  File no_data = file_of({tensor("t", {4}, kF32, 0)}, 0);
  check_bad("no data", no_data.bytes(), SLUICE_END_OF_FILE, {"begin at 64", "has 57 bytes"});
  check_bad("no data", no_data.bytes() + "1234567", SLUICE_END_OF_FILE, {"'t'", "0 bytes of data"});
  no_data.tensors = {tensor("t", {0}, kF32, 0)};
  check_bad("no data", no_data.bytes(), SLUICE_END_OF_FILE, {"begin at 64", "has 57 bytes"});
  CHECK(parse(no_data.bytes() + "1234567").ok());
}

TEST_CASE("alignment") {
  const auto file_aligned = [](const std::string &value, uint32_t type, uint64_t alignment,
                               uint64_t offset) {
    File file = file_of({tensor("t", {4}, kF32, offset)}, offset + 16);
    file.keys = {key("general.alignment", type, value)};
    file.alignment = alignment;
    return file.bytes();
  };
  for (const uint64_t alignment : {8, 16, 64, 4096, 1 << 20}) {
    CAPTURE(alignment);
    auto parsed = parse(file_aligned(u32(alignment), kUint32, alignment, alignment));
    REQUIRE(parsed.ok());
    CHECK(parsed.value().data_offset % alignment == 0);
    CHECK(metadata_of(parsed.value().header)["general.alignment"] == std::to_string(alignment));
    check_bad("offset", file_aligned(u32(alignment), kUint32, alignment, alignment / 2),
              SLUICE_BAD_FORMAT, {"'t'", "isn't a multiple of the alignment"});
  }
  for (const uint64_t alignment : {0, 1, 4, 24, 33, 1 << 21}) {
    check_bad("alignment", file_aligned(u32(alignment), kUint32, 32, 0), SLUICE_BAD_FORMAT,
              {"'general.alignment'", std::to_string(alignment) + " isn't a power of two"});
  }
  check_bad("type", file_aligned(u64(32), kUint64, 32, 0), SLUICE_BAD_FORMAT,
            {"'general.alignment'", "uint64, not uint32"});
  check_bad("type", file_aligned(text("32"), kString, 32, 0), SLUICE_BAD_FORMAT,
            {"'general.alignment'", "string, not uint32"});
  check_bad("type", file_aligned(array(kUint32, 1, u32(32)), kArray, 32, 0), SLUICE_BAD_FORMAT,
            {"'general.alignment'", "array, not uint32"});
}

TEST_CASE("which file of a set it is") {
  const auto split = [](const std::vector<std::string> &keys) {
    File file;
    file.keys = keys;
    return file.bytes();
  };
  auto parsed = parse(split(split_keys(2, 3, 77)));
  REQUIRE(parsed.ok());
  REQUIRE(parsed.value().split);
  CHECK(parsed.value().split->number == 2);
  CHECK(parsed.value().split->count == 3);
  CHECK(parsed.value().split->tensor_count == 77);
  CHECK(parsed.value().header.metadata_count() == 0);
  // A merged file.
  parsed = parse(split(split_keys(0, 0, 77)));
  REQUIRE(parsed.ok());
  CHECK(!parsed.value().split);
  check_bad("number", split(split_keys(3, 3, 77)), SLUICE_BAD_FORMAT, {"split.no is 3"});
  check_bad("alone", split({key("split.count", kUint16, u16(2))}), SLUICE_BAD_FORMAT,
            {"no split.no"});
  for (const auto &[type, value] :
       std::vector<std::pair<uint32_t, std::string>>{{kInt32, u32(static_cast<uint32_t>(-1))},
                                                     {kFloat32, u32(0)},
                                                     {kBool, le(1, 1)},
                                                     {kString, text("1")},
                                                     {kArray, array(kUint16, 1, u16(1))}}) {
    check_bad("kind", split({key("split.count", type, value)}), SLUICE_BAD_FORMAT,
              {"'split.count'", "whole number"});
  }
}

TEST_CASE("names of a set's files") {
  const auto name = parse_gguf_set_name("a-b-00002-of-00012.gguf");
  REQUIRE(name.has_value());
  CHECK(name->stem == "a-b");
  CHECK(name->number == 1);
  CHECK(name->count == 12);
  CHECK(gguf_set_name(name->stem, name->number, name->count) == "a-b-00002-of-00012.gguf");
  CHECK(name->same_set(*parse_gguf_set_name("a-b-00012-of-00012.gguf")));
  CHECK(!name->same_set(*parse_gguf_set_name("a-b-00002-of-00013.gguf")));
  CHECK(!name->same_set(*parse_gguf_set_name("a-c-00002-of-00012.gguf")));
  CHECK(parse_gguf_set_name("-00001-of-00001.gguf")->stem.empty());
  for (const char *other :
       {"", ".gguf", "a.gguf", "a-00001-of-00002", "a-00001-of-00002.GGUF", "00001-of-00002.gguf",
        "a-0001-of-0002.gguf", "a-00000-of-00002.gguf", "a-00003-of-00002.gguf",
        "a_00001-of-00002.gguf", "a-00001_of-00002.gguf", "a-0000x-of-00002.gguf",
        "a-00001-of-0000 .gguf", "a-00001-of-00002.gguf.part"}) {
    CAPTURE(other);
    CHECK(!parse_gguf_set_name(other));
  }
}

TEST_CASE("pieces: any start leads to the same answer, and asks for no more than there is") {
  File good = all_kinds();
  good.tensors = {tensor("t", {4}, kF32, 0), tensor("u", {32, 2}, kQ4_0, 32)};
  good.data = std::string(100, 'x');
  File overlapping = good;
  overlapping.tensors[1] = tensor("u", {32, 2}, kQ4_0, 0);
  File unknown = good;
  unknown.keys[10] = key("a.empty", 99, "");
  std::string cut = good.header();
  cut.resize(cut.size() - 3);
  for (const std::string &file : {good.bytes(), overlapping.bytes(), unknown.bytes(), cut}) {
    auto whole = parse_start(file, file.size());
    const std::string answer = whole.ok() ? "" : whole.status().record().message;
    for (size_t size = 0; size <= file.size(); ++size) {
      CAPTURE(size);
      auto part = parse_start(std::string_view(file).substr(0, size), file.size());
      size_t steps = 0;
      while (part.ok() && !part.value().header) {
        const uint64_t needed = part.value().needed_bytes;
        REQUIRE(needed > size);
        REQUIRE(needed <= file.size());
        REQUIRE(++steps < 500);
        part = parse_start(std::string_view(file).substr(0, needed), file.size());
      }
      CHECK(part.ok() == whole.ok());
      CHECK((part.ok() ? "" : part.status().record().message) == answer);
    }
  }
}

TEST_CASE("a header that would be too long isn't asked for") {
  // The file is large, so that the lengths in it could be true.
  constexpr uint64_t kLarge = uint64_t{1} << 40;
  const std::string limit = std::to_string(kGgufMaxHeaderBytes);
  const auto refused = [&](const std::string &start, const char *says) {
    auto parsed = parse_start(start, kLarge);
    REQUIRE(!parsed.ok());
    CHECK(parsed.status().code() == SLUICE_BAD_FORMAT);
    const std::string message = parsed.status().record().message;
    CAPTURE(message);
    CHECK(message.find(says) != message.npos);
    CHECK(message.find(limit) != message.npos);
  };
  File file = file_with(key("k", kArray, array(kUint8, kGgufMaxHeaderBytes, "")));
  refused(file.bytes(), "268435456 numbers");
  file = file_with(key("k", kArray, array(kString, 1, u64(kGgufMaxHeaderBytes))));
  refused(file.bytes(), "268435456 bytes");
  file = {};
  file.tensor_count = 20'000'000;
  refused(file.bytes(), "20000000 tensors");

  file = file_with(key("k", kArray, array(kUint8, kGgufMaxHeaderBytes - 1000, "")));
  auto parsed = parse_start(file.bytes(), kLarge);
  REQUIRE(parsed.ok());
  CHECK(!parsed.value().header);
  CHECK(parsed.value().needed_bytes == file.bytes().size() + kGgufMaxHeaderBytes - 1000);
}

TEST_CASE("UTF-8") {
  for (const char *good :
       {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc3\xa9z"}) {
    CAPTURE(good);
    CHECK(is_utf8(good));
  }
  for (const char *bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2z", "\xe0\x9f\xbf", "\xe1\x80",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xf0\x90\x80", "\xff", "\xe1\x80z", "\xf1\x80\x80z"}) {
    CAPTURE(bad);
    CHECK(!is_utf8(bad));
  }
}

// A value as the package's reader gives it, and as sluice shows it.
static bool same_value(const nlohmann::json &theirs, const std::string &mine) {
  if (theirs.is_string()) return theirs.get<std::string>() == mine;
  if (!theirs.is_number_float()) return theirs.dump() == mine;
  // The package widens a float32, of which the shortest text is shown.
  const auto number = theirs.get<double>();
  return std::stod(mine) == number || std::stof(mine) == static_cast<float>(number);
}

TEST_CASE("same verdict as the reader of the gguf package") {
  std::ifstream stream(SLUICE_SOURCE_DIR "/tests/unit/io/gguf_verdicts.json");
  const auto recorded = nlohmann::json::parse(stream);
  size_t good = 0;
  for (const auto &recorded_case : recorded["cases"]) {
    const std::string name = recorded_case["file"];
    CAPTURE(name);
    std::ifstream in(SLUICE_SOURCE_DIR "/tests/fuzz/corpus/gguf/" + name, std::ios::binary);
    const std::string file{std::istreambuf_iterator<char>(in), {}};
    const auto &library = recorded_case["library"];
    const bool differs = recorded_case["differs"] != "";
    auto parsed = parse(file);
    const std::string message = parsed.ok() ? "" : parsed.status().record().message;
    CAPTURE(message);
    CHECK(parsed.ok() == (library["accepts"] && !differs));
    if (differs) CHECK(library["accepts"] == true);  // else the mark is stale
    if (!parsed.ok() || differs || !library["accepts"]) continue;
    ++good;
    const FileHeader &header = parsed.value().header;
    REQUIRE(header.tensor_count() == library["tensors"].size());
    std::map<std::string, HeaderTensor> mine;
    for (uint64_t i = 0; i < header.tensor_count(); ++i) {
      mine.emplace(header.name(i), header.tensor(i));
    }
    for (const auto &expected : library["tensors"]) {
      const HeaderTensor &found = mine.at(expected["name"]);
      CHECK(type_name(found.type) == expected["type"].get<std::string>());
      CHECK(std::vector<uint64_t>(found.shape.begin(), found.shape.end()) ==
            expected["shape"].get<std::vector<uint64_t>>());
      CHECK(parsed.value().data_offset + found.begin == expected["offset"]);
      CHECK(found.end - found.begin == expected["bytes"]);
    }
    auto metadata = metadata_of(header);
    CHECK(metadata.size() == library["keys"].size());
    for (const auto &[key, value] : library["keys"].items()) {
      CAPTURE(key);
      CHECK(same_value(value, metadata[key]));
    }
  }
  CHECK(recorded["cases"].size() > 30);
  CHECK(good > 15);
}

// Looking through the words before for each word would run into the test's time limit.
TEST_CASE("a vocabulary of a million words is parsed in work that grows with its length") {
  std::string tokens, scores;
  constexpr uint64_t kTokens = 1'000'000;
  for (uint64_t i = 0; i < kTokens; ++i) {
    tokens += text("token" + std::to_string(i));
    scores += u32(i);
  }
  File file = file_of({tensor("t", {4}, kF32, 0)});
  file.keys = {key("tokenizer.ggml.tokens", kArray, array(kString, kTokens, tokens)),
               key("tokenizer.ggml.scores", kArray, array(kFloat32, kTokens, scores))};
  CHECK(parse(file.bytes()).ok());
}

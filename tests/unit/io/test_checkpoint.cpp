// Checkpoints on disk through the C API: what may be opened, each way in which a set can be wrong,
// and that nothing stays open afterwards.
#include <doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/checkpoint.h"
#include "runtime/sluice.h"
#include "tests/support/files.h"
#include "tests/support/gguf.h"
#include "tests/support/process.h"

namespace fs = std::filesystem;

namespace {

class Folder {
 public:
  std::string operator/(const std::string &name) const { return folder_.file(name); }
  std::string path() const { return folder_.path(); }

  void write(const std::string &name, const std::string &bytes) const {
    support::write_file(folder_.file(name), bytes.data(), bytes.size());
  }

 private:
  support::TemporaryFolder folder_;
};

std::string file_of(const std::string &json, size_t data_bytes) {
  std::string out;
  for (size_t i = 0; i < 8; ++i) out.push_back(static_cast<char>(json.size() >> (8 * i) & 0xFF));
  return out + json + std::string(data_bytes, 'x');
}

// A shard with one U8 tensor of 4 bytes for each name.
std::string shard_of(const std::vector<std::string> &names, const std::string &more = "") {
  std::string json = "{" + more;
  for (size_t i = 0; i < names.size(); ++i) {
    json += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[4],"data_offsets":[{},{}]}})",
                        i > 0 || !more.empty() ? "," : "", names[i], 4 * i, 4 * i + 4);
  }
  return file_of(json + "}", 4 * names.size());
}

std::string index_of(const std::vector<std::pair<std::string, std::string>> &map) {
  std::string json = R"({"metadata":{"total_size":8,"weight_map":[{}]},"weight_map":{)";
  for (size_t i = 0; i < map.size(); ++i) {
    json += fmt::format("{}\"{}\":\"{}\"", i ? "," : "", map[i].first, map[i].second);
  }
  return json + "}}";
}

class Machine {
 public:
  Machine() {
    sluice_options options = {};
    options.struct_size = sizeof options;
    options.driver = "none";
    options.log_level = SLUICE_LOG_OFF;
    REQUIRE(sluice_runtime_create(&options, &runtime_) == SLUICE_OK);
  }
  ~Machine() { CHECK(sluice_runtime_destroy(runtime_) == SLUICE_OK); }
  sluice_runtime *get() const { return runtime_; }

 private:
  sluice_runtime *runtime_ = nullptr;
};

struct Close {
  void operator()(sluice_checkpoint *checkpoint) const {
    CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
  }
};
using Handle = std::unique_ptr<sluice_checkpoint, Close>;

std::string last_message() {
  sluice_error record = SLUICE_ERROR_INIT;
  REQUIRE(sluice_error_get(&record) == SLUICE_OK);
  return record.message;
}

Handle open(const Machine &machine, const std::string &path) {
  sluice_checkpoint *checkpoint = nullptr;
  const sluice_status status = sluice_checkpoint_open(machine.get(), path.c_str(), &checkpoint);
  INFO((status == SLUICE_OK ? std::string() : last_message()));
  REQUIRE(status == SLUICE_OK);
  return Handle(checkpoint);
}

void check_refused(const Machine &machine, const std::string &path, sluice_status code,
                   const std::vector<std::string> &says) {
  const size_t before = support::open_descriptors();
  auto *checkpoint = reinterpret_cast<sluice_checkpoint *>(1);
  CHECK(sluice_checkpoint_open(machine.get(), path.c_str(), &checkpoint) == code);
  CHECK(checkpoint == nullptr);
  CHECK(support::open_descriptors() == before);
  const std::string message = last_message();
  CAPTURE(message);
  for (const std::string &part : says) {
    CAPTURE(part);
    CHECK(message.find(part) != message.npos);
  }
}

std::vector<std::string> names_of(const Handle &checkpoint) {
  sluice_checkpoint_info info = {};
  info.struct_size = sizeof info;
  REQUIRE(sluice_checkpoint_info_get(checkpoint.get(), &info) == SLUICE_OK);
  std::vector<std::string> names;
  for (uint64_t i = 0; i < info.tensor_count; ++i) {
    sluice_tensor_info tensor = {};
    tensor.struct_size = sizeof tensor;
    REQUIRE(sluice_checkpoint_tensor(checkpoint.get(), i, &tensor) == SLUICE_OK);
    names.emplace_back(tensor.name);
  }
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a single file, by its path and by its directory") {
  const Machine machine;
  const Folder folder;
  const std::string metadata = R"("__metadata__":{"k":"v"})";
  folder.write("weights.safetensors",
               shard_of({"h.0.a", "h.0.b", "h.1.a", "h.1.b", "end"}, metadata));
  folder.write("._weights.safetensors", "left by macOS");
  folder.write("config.json", "{}");
  for (const std::string &path :
       {folder.path(), folder.path() + "/", folder / "weights.safetensors"}) {
    CAPTURE(path);
    const Handle checkpoint = open(machine, path);
    CHECK(names_of(checkpoint) == Names{"h.0.a", "h.0.b", "h.1.a", "h.1.b", "end"});

    sluice_checkpoint_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(sluice_checkpoint_info_get(checkpoint.get(), &info) == SLUICE_OK);
    CHECK(info.shard_count == 1);
    CHECK(info.block_count == 2);
    CHECK(info.data_bytes == 20);

    uint64_t index = 0;
    REQUIRE(sluice_checkpoint_find(checkpoint.get(), "h.1.a", &index) == SLUICE_OK);
    sluice_tensor_info tensor = {};
    tensor.struct_size = sizeof tensor;
    REQUIRE(sluice_checkpoint_tensor(checkpoint.get(), index, &tensor) == SLUICE_OK);
    CHECK(tensor.type == SLUICE_TYPE_U8);
    CHECK(tensor.dimension_count == 1);
    CHECK(tensor.shape[0] == 4);
    CHECK(tensor.size_bytes == 4);
    CHECK(tensor.block == 1);
    CHECK(tensor.file_offset == fs::file_size(folder / "weights.safetensors") - 20 + 8);

    sluice_block_info block = {};
    block.struct_size = sizeof block;
    REQUIRE(sluice_checkpoint_block(checkpoint.get(), 1, &block) == SLUICE_OK);
    CHECK(std::string(block.prefix) == "h.1.");
    CHECK(block.number == 1);
    CHECK(block.tensor_count == 2);
    CHECK(block.size_bytes == 8);

    const char *shard_path = nullptr;
    sluice_file *file = nullptr;
    REQUIRE(sluice_checkpoint_shard(checkpoint.get(), 0, &shard_path, &file) == SLUICE_OK);
    CHECK(fs::path(shard_path).filename() == "weights.safetensors");
    CHECK(file != nullptr);

    const char *key = nullptr, *value = nullptr;
    REQUIRE(sluice_checkpoint_metadata(checkpoint.get(), 0, &key, &value));
    CHECK(std::string(key) == "k");
    CHECK(std::string(value) == "v");
    CHECK(!sluice_checkpoint_metadata(checkpoint.get(), 1, &key, &value));
    CHECK(key == nullptr);
  }
}

TEST_CASE("questions with no answer leave zero behind") {
  const Machine machine;
  const Folder folder;
  folder.write("a.safetensors", shard_of({"a"}));
  const Handle checkpoint = open(machine, folder.path());
  sluice_tensor_info tensor = {};
  tensor.struct_size = sizeof tensor;
  tensor.name = "left";
  CHECK(sluice_checkpoint_tensor(checkpoint.get(), 1, &tensor) == SLUICE_INVALID_ARGUMENT);
  CHECK(tensor.name == nullptr);
  CHECK(tensor.struct_size == sizeof tensor);
  CHECK(last_message().find("tensor 1") != std::string::npos);
  CHECK(sluice_checkpoint_tensor(checkpoint.get(), 0, nullptr) == SLUICE_INVALID_ARGUMENT);
  sluice_block_info block = {};
  block.struct_size = sizeof block;
  CHECK(sluice_checkpoint_block(checkpoint.get(), 0, &block) == SLUICE_INVALID_ARGUMENT);
  uint64_t index = 7;
  CHECK(sluice_checkpoint_find(checkpoint.get(), "b", &index) == SLUICE_NOT_FOUND);
  CHECK(index == 0);
  CHECK(last_message().find("'b'") != std::string::npos);
  auto *file = reinterpret_cast<sluice_file *>(1);
  CHECK(sluice_checkpoint_shard(checkpoint.get(), 1, nullptr, &file) == SLUICE_INVALID_ARGUMENT);
  CHECK(file == nullptr);
  CHECK(sluice_checkpoint_close(nullptr) == SLUICE_OK);
  sluice_checkpoint *none = nullptr;
  CHECK(sluice_checkpoint_open(nullptr, "x", &none) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_checkpoint_open(machine.get(), nullptr, &none) == SLUICE_INVALID_ARGUMENT);
  CHECK(sluice_checkpoint_open(machine.get(), "x", nullptr) == SLUICE_INVALID_ARGUMENT);
  CHECK(std::string(sluice_type_name(SLUICE_TYPE_BF16)) == "BF16");
  CHECK(sluice_type_bits(SLUICE_TYPE_F6_E2M3) == 6);
}

TEST_CASE("a set with an index, by the directory and by the index") {
  const Machine machine;
  const Folder folder;
  folder.write("b.safetensors",
               shard_of({"late", "unlisted"}, R"("__metadata__":{"k":"v","l":"w"})"));
  folder.write("a.safetensors", shard_of({"early"}, R"("__metadata__":{"k":"v"})"));
  folder.write("none.safetensors", file_of("{}", 0));
  folder.write("model.safetensors.index.json",
               index_of({{"late", "b.safetensors"}, {"early", "a.safetensors"}}));
  for (const std::string &path : {folder.path(), folder / "model.safetensors.index.json"}) {
    const Handle checkpoint = open(machine, path);
    CHECK(names_of(checkpoint) == Names{"early", "late", "unlisted"});
    sluice_tensor_info tensor = {};
    tensor.struct_size = sizeof tensor;
    REQUIRE(sluice_checkpoint_tensor(checkpoint.get(), 2, &tensor) == SLUICE_OK);
    CHECK(tensor.shard == 1);
    CHECK(tensor.block == SLUICE_NO_BLOCK);
    const char *key = nullptr, *value = nullptr;
    REQUIRE(sluice_checkpoint_metadata(checkpoint.get(), 1, &key, &value));
    CHECK(std::string(key) == "l");
    CHECK(!sluice_checkpoint_metadata(checkpoint.get(), 2, &key, &value));
  }
}

TEST_CASE("what can't be opened") {
  const Machine machine;
  const Folder folder;
  check_refused(machine, folder / "missing.safetensors", SLUICE_NOT_FOUND, {"missing.safetensors"});
  check_refused(machine, folder / "a/b/c", SLUICE_NOT_FOUND, {"a/b/c"});
  check_refused(machine, "", SLUICE_NOT_FOUND, {});
  check_refused(machine, folder.path(), SLUICE_NOT_FOUND,
                {folder.path(), "model.safetensors.index.json", "*.safetensors", "0 of them"});
  folder.write("a.safetensors", shard_of({"a"}));
  folder.write("b.safetensors", shard_of({"b"}));
  check_refused(machine, folder.path(), SLUICE_NOT_FOUND, {folder.path(), "2 of them"});
  folder.write("diffusion.safetensors.index.json", index_of({{"a", "a.safetensors"}}));
  check_refused(machine, folder.path(), SLUICE_NOT_FOUND,
                {"'diffusion.safetensors.index.json' is there"});
  CHECK(names_of(open(machine, folder / "diffusion.safetensors.index.json")) == Names{"a"});
  if (fs::exists(support::null_device()))  // a system may not tell of it
    check_refused(machine, support::null_device(), SLUICE_INVALID_ARGUMENT,
                  {support::null_device()});
  check_refused(machine, folder / std::string(300, 'n'), SLUICE_NOT_FOUND, {"nnn"});
}

TEST_CASE("bad files name themselves") {
  const Machine machine;
  const Folder folder;
  const std::string good = shard_of({"first", "second"});
  const std::string path = folder / "m.safetensors";
  const auto refused = [&](const std::string &bytes, sluice_status code,
                           std::vector<std::string> says) {
    folder.write("m.safetensors", bytes);
    says.push_back(path);
    check_refused(machine, path, code, says);
  };
  refused("", SLUICE_END_OF_FILE, {"0 bytes"});
  refused("seven b", SLUICE_END_OF_FILE, {"7 bytes"});
  refused(good.substr(0, 40), SLUICE_END_OF_FILE, {"cut off"});
  refused(good.substr(0, good.size() - 1), SLUICE_END_OF_FILE, {"'second'", "7 bytes"});
  refused(good.substr(0, good.size() - 5), SLUICE_END_OF_FILE, {"'first'", "3 bytes"});
  refused(good + "x", SLUICE_BAD_FORMAT, {"1 bytes of data follow"});
  refused(file_of("[]", 0), SLUICE_BAD_FORMAT, {"'{'"});
  refused("version https://git-lfs.github.com/spec/v1\n", SLUICE_BAD_FORMAT, {"git lfs pull"});
  folder.write("m.safetensors", good);
  CHECK(names_of(open(machine, path)) == Names{"first", "second"});
}

TEST_CASE("bad sets name the tensor, the shard and the index") {
  const Machine machine;
  const Folder folder;
  const std::string path = folder / "model.safetensors.index.json";
  folder.write("a.safetensors", shard_of({"one"}));
  folder.write("b.safetensors", shard_of({"two"}));
  folder.write("bad.safetensors", shard_of({"three"}) + "x");
  folder.write("again.safetensors", shard_of({"one"}));
  fs::create_directory(folder / "folder.safetensors");
  const auto refused = [&](const std::string &json, sluice_status code,
                           std::vector<std::string> says) {
    CAPTURE(json);
    folder.write("model.safetensors.index.json", json);
    check_refused(machine, folder.path(), code, says);
    check_refused(machine, path, code, says);
  };
  const auto map = [](const std::string &value) { return "{\"weight_map\":" + value + "}"; };

  refused("", SLUICE_BAD_FORMAT, {path, "not JSON"});
  refused("{}", SLUICE_BAD_FORMAT, {path, "no weight_map"});
  refused("[]", SLUICE_BAD_FORMAT, {path, "an array"});
  refused("3", SLUICE_BAD_FORMAT, {path, "a number"});
  refused(map("[]"), SLUICE_BAD_FORMAT, {path, "weight_map is an array"});
  refused(map("{}"), SLUICE_BAD_FORMAT, {path, "no tensor"});
  refused(map("{\"one\":3}"), SLUICE_BAD_FORMAT, {path, "'one'", "a number"});
  refused(map("{\"one\":{}}"), SLUICE_BAD_FORMAT, {path, "'one'", "an object"});
  refused(map("{\"one\":\"a.safetensors\"}") + "x", SLUICE_BAD_FORMAT, {path, "1 bytes follow"});
  refused("{\"weight_map\":{},\"weight_map\":{}}", SLUICE_BAD_FORMAT, {path, "twice"});
  refused(index_of({{"one", "a.safetensors"}, {"one", "b.safetensors"}}), SLUICE_BAD_FORMAT,
          {path, "'one'", "twice"});
  for (const char *shard : {"", ".", "..", "../a.safetensors", "/etc/passwd", "x/a.safetensors",
                            "x\\\\a.safetensors", "c:a.safetensors", "a.safetensors\\u0000"}) {
    CAPTURE(shard);
    refused(index_of({{"one", shard}}), SLUICE_BAD_FORMAT, {path, "'one'", "beside the index"});
  }
  refused(index_of({{"one", "a.safetensors"}, {"gone", "gone.safetensors"}}), SLUICE_NOT_FOUND,
          {"'gone.safetensors'", path});
  refused(index_of({{"one", "folder.safetensors"}}), SLUICE_INVALID_ARGUMENT,
          {"folder.safetensors", "directory"});
  refused(index_of({{"one", "a.safetensors"}, {"three", "bad.safetensors"}}), SLUICE_BAD_FORMAT,
          {"bad.safetensors", "1 bytes of data follow"});
  refused(index_of({{"one", "a.safetensors"}, {"lost", "a.safetensors"}}), SLUICE_BAD_FORMAT,
          {path, "'lost'", "'a.safetensors'", "lacks it"});
  refused(index_of({{"one", "a.safetensors"}, {"two", "a.safetensors"}, {"x", "b.safetensors"}}),
          SLUICE_BAD_FORMAT, {path, "'two'", "'a.safetensors'", "'b.safetensors'"});
  refused(index_of({{"one", "a.safetensors"}, {"x", "again.safetensors"}}), SLUICE_BAD_FORMAT,
          {path, "'one'", "a.safetensors", "again.safetensors", "two shards"});
}

TEST_CASE("more than a thousand shards, and an error that says so where there are too many") {
  constexpr int kShards = 1100;
  const bool limited = support::limit_descriptors(kShards + 200);
  const Machine machine;
  const Folder folder;
  std::vector<std::pair<std::string, std::string>> map;
  for (int i = 0; i < kShards; ++i) {
    const std::string shard = fmt::format("model-{:05}.safetensors", i);
    const std::string name = fmt::format("layers.{}.w", i);
    folder.write(shard, shard_of({name, fmt::format("layers.{}.b", i)}));
    map.emplace_back(name, shard);
  }
  folder.write("model.safetensors.index.json", index_of(map));
  {
    const Handle checkpoint = open(machine, folder.path());
    sluice_checkpoint_info info = {};
    info.struct_size = sizeof info;
    REQUIRE(sluice_checkpoint_info_get(checkpoint.get(), &info) == SLUICE_OK);
    CHECK(info.shard_count == kShards);
    CHECK(info.tensor_count == 2 * kShards);
    CHECK(info.block_count == kShards);
    for (const int i : {0, 1, 2, 10, kShards - 1}) {
      uint64_t index = 0;
      const std::string name = fmt::format("layers.{}.b", i);
      REQUIRE(sluice_checkpoint_find(checkpoint.get(), name.c_str(), &index) == SLUICE_OK);
      CHECK(index == static_cast<uint64_t>(2 * i + 1));
    }
    CHECK(sluice_runtime_destroy(machine.get()) == SLUICE_BUSY);
  }
  if (!limited) return;
  REQUIRE(support::limit_descriptors(support::open_descriptors() + 20));
  check_refused(machine, folder.path(), SLUICE_OUT_OF_FILE_DESCRIPTORS, {"model-000"});
  REQUIRE(support::limit_descriptors(0));
}

// ---- GGUF

namespace {

namespace gguf = support::gguf;

// A file with one I8 tensor of 4 bytes for each name, each at a multiple of 32.
gguf::File gguf_of(const std::vector<std::string> &names,
                   const std::vector<std::string> &keys = {}) {
  gguf::File file;
  file.keys = keys;
  for (const std::string &name : names) {
    file.tensors.push_back(gguf::tensor(name, {4}, gguf::kI8, file.data.size()));
    file.data += name.substr(0, 4) + std::string(32 - std::min<size_t>(name.size(), 4), 0);
  }
  return file;
}

void write_set(const Folder &folder, const std::vector<std::vector<std::string>> &shards) {
  uint64_t tensors = 0;
  for (const auto &names : shards) tensors += names.size();
  for (size_t i = 0; i < shards.size(); ++i) {
    folder.write(fmt::format("m-{:05}-of-{:05}.gguf", i + 1, shards.size()),
                 gguf_of(shards[i], gguf::split_keys(i, shards.size(), tensors)).bytes());
  }
}

}  // namespace

TEST_CASE("a GGUF file, by its path, under any name, and by its directory") {
  const Machine machine;
  const Folder folder, plain;
  const gguf::File file =
      gguf_of({"token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up.weight",
               "blk.1.attn_q.weight", "blk.1.ffn_up.weight", "output.weight"},
              {gguf::key("general.architecture", gguf::kString, gguf::text("llama")),
               gguf::key("llama.block_count", gguf::kUint32, gguf::u32(2)),
               gguf::key("tokenizer.ggml.tokens", gguf::kArray,
                         gguf::array(gguf::kString, 1, gguf::text("a")))});
  folder.write("m.gguf", file.bytes());
  folder.write("._m.gguf", "left by macOS");
  folder.write("config.json", "{}");
  plain.write("blob", file.bytes());
  for (const std::string &path : {folder.path(), folder / "m.gguf", plain / "blob"}) {
    CAPTURE(path);
    const Handle checkpoint = open(machine, path);
    CHECK(names_of(checkpoint).size() == 6);
    sluice_checkpoint_info info = SLUICE_CHECKPOINT_INFO_INIT;
    REQUIRE(sluice_checkpoint_info_get(checkpoint.get(), &info) == SLUICE_OK);
    CHECK(info.format == SLUICE_FORMAT_GGUF);
    CHECK(info.block_count == 2);
    CHECK(info.data_bytes == 24);
    sluice_block_info block = SLUICE_BLOCK_INFO_INIT;
    REQUIRE(sluice_checkpoint_block(checkpoint.get(), 1, &block) == SLUICE_OK);
    CHECK(std::string(block.prefix) == "blk.1.");
    CHECK(block.tensor_count == 2);
    sluice_tensor_info tensor = SLUICE_TENSOR_INFO_INIT;
    REQUIRE(sluice_checkpoint_tensor(checkpoint.get(), 5, &tensor) == SLUICE_OK);
    CHECK(tensor.type == SLUICE_TYPE_I8);
    CHECK(file.bytes().substr(tensor.file_offset, 4) == "outp");
    const char *key = nullptr, *value = nullptr;
    REQUIRE(sluice_checkpoint_metadata(checkpoint.get(), 2, &key, &value));
    CHECK(std::string(key) == "tokenizer.ggml.tokens");
    CHECK(std::string(value) == "[string x 1]");
  }
  // A safetensors file comes first, and says that it is one.
  folder.write("a.safetensors", shard_of({"a"}));
  const Handle checkpoint = open(machine, folder.path());
  sluice_checkpoint_info info = SLUICE_CHECKPOINT_INFO_INIT;
  REQUIRE(sluice_checkpoint_info_get(checkpoint.get(), &info) == SLUICE_OK);
  CHECK(info.format == SLUICE_FORMAT_SAFETENSORS);
}

TEST_CASE("a header of several pieces") {
  const Machine machine;
  const Folder folder;
  std::string tokens;
  for (int i = 0; i < 100'000; ++i) tokens += gguf::text(std::to_string(i));
  const std::string words =
      gguf::key("words", gguf::kArray, gguf::array(gguf::kString, 100'000, tokens));
  const std::string text = gguf::key("text", gguf::kString, gguf::text(std::string(700'000, 't')));
  for (const auto &keys : {std::vector{words}, std::vector{text}, std::vector{words, text}}) {
    const std::string good = gguf_of({"a", "b"}, keys).bytes();
    folder.write("m.gguf", good);
    CHECK(names_of(open(machine, folder.path())) == Names{"a", "b"});
    folder.write("m.gguf", good.substr(0, good.size() - 100));
    check_refused(machine, folder / "m.gguf", SLUICE_END_OF_FILE, {folder / "m.gguf"});
    folder.write("m.gguf", good.substr(0, 500'000));
    check_refused(machine, folder / "m.gguf", SLUICE_END_OF_FILE, {folder / "m.gguf", "cut off"});
  }
}

TEST_CASE("a GGUF set, by each of its files and by its directory") {
  const Machine machine;
  const Folder folder;
  write_set(folder, {{}, {"b", "c"}, {"a"}});
  for (const std::string &path :
       {folder.path(), folder / "m-00001-of-00003.gguf", folder / "m-00002-of-00003.gguf",
        folder / "m-00003-of-00003.gguf"}) {
    CAPTURE(path);
    const Handle checkpoint = open(machine, path);
    CHECK(names_of(checkpoint) == Names{"b", "c", "a"});
    sluice_tensor_info tensor = SLUICE_TENSOR_INFO_INIT;
    REQUIRE(sluice_checkpoint_tensor(checkpoint.get(), 2, &tensor) == SLUICE_OK);
    CHECK(tensor.shard == 2);
    const char *key = nullptr, *value = nullptr;
    CHECK(!sluice_checkpoint_metadata(checkpoint.get(), 0, &key, &value));
  }
  // A set of one, and a merged file that kept the name of the first.
  folder.write("o-00001-of-00001.gguf", gguf_of({"x"}, gguf::split_keys(0, 1, 1)).bytes());
  CHECK(names_of(open(machine, folder / "o-00001-of-00001.gguf")) == Names{"x"});
  folder.write("merged.gguf", gguf_of({"x"}, gguf::split_keys(0, 0, 1)).bytes());
  CHECK(names_of(open(machine, folder / "merged.gguf")) == Names{"x"});
  check_refused(machine, folder.path(), SLUICE_NOT_FOUND, {"single *.gguf file or set", "5 files"});
}

TEST_CASE("bad GGUF sets name the file") {
  const Machine machine;
  const Folder folder;
  const std::string first = folder / "m-00001-of-00003.gguf";
  const std::string second = folder / "m-00002-of-00003.gguf";
  const std::string last = folder / "m-00003-of-00003.gguf";
  const auto refused = [&](sluice_status code, const std::vector<std::string> &says) {
    for (const std::string &path : {folder.path(), first, last}) {
      CAPTURE(path);
      check_refused(machine, path, code, says);
    }
    write_set(folder, {{"a"}, {"b"}, {"c"}});
  };
  const auto second_is = [&](const std::vector<std::string> &names,
                             const std::vector<std::string> &keys) {
    folder.write("m-00002-of-00003.gguf", gguf_of(names, keys).bytes());
  };
  write_set(folder, {{"a"}, {"b"}, {"c"}});
  fs::remove(second);
  refused(SLUICE_NOT_FOUND, {"'m-00002-of-00003.gguf'", "missing"});
  second_is({"a"}, gguf::split_keys(1, 3, 3));
  refused(SLUICE_BAD_FORMAT, {"'a'", first, second, "two shards"});
  second_is({"b"}, {});
  refused(SLUICE_BAD_FORMAT, {second, "no split.no"});
  second_is({"b"}, gguf::split_keys(2, 3, 3));
  refused(SLUICE_BAD_FORMAT, {second, "split.no is 2"});
  second_is({"b"}, gguf::split_keys(1, 4, 3));
  refused(SLUICE_BAD_FORMAT, {second, "split.count 4"});
  second_is({"b"}, gguf::split_keys(1, 3, 4));
  refused(SLUICE_BAD_FORMAT, {second, "split.tensors.count is 4"});
  second_is({"b", "d"}, gguf::split_keys(1, 3, 3));
  refused(SLUICE_BAD_FORMAT, {"4 tensors", "split.tensors.count is 3"});
  folder.write("m-00002-of-00003.gguf", shard_of({"b"}));
  refused(SLUICE_BAD_FORMAT, {second, "no split.no"});
  folder.write("m-00002-of-00003.gguf", "GGUF");
  refused(SLUICE_END_OF_FILE, {second});
  CHECK(names_of(open(machine, folder.path())) == Names{"a", "b", "c"});

  folder.write("alone.gguf", gguf_of({"a"}, gguf::split_keys(1, 3, 3)).bytes());
  check_refused(machine, folder / "alone.gguf", SLUICE_BAD_FORMAT,
                {"alone.gguf", "'...-00002-of-00003.gguf'"});
  folder.write("n-00001-of-00002.gguf", gguf_of({"a"}).bytes());
  check_refused(machine, folder / "n-00001-of-00002.gguf", SLUICE_BAD_FORMAT,
                {"n-00001-of-00002.gguf", "called one of 2 files", "split.count"});
}

TEST_CASE("bad GGUF files name themselves; an index is of safetensors files") {
  const Machine machine;
  const Folder folder;
  const std::string path = folder / "m.gguf";
  const std::string good = gguf_of({"first", "second"}).bytes();
  const auto refused = [&](const std::string &bytes, sluice_status code,
                           std::vector<std::string> says) {
    folder.write("m.gguf", bytes);
    says.push_back(path);
    check_refused(machine, path, code, says);
  };
  refused("", SLUICE_END_OF_FILE, {"doesn't start with 'GGUF'", "0 bytes"});
  refused("GGML" + good.substr(4), SLUICE_BAD_FORMAT, {"doesn't start with 'GGUF'"});
  refused("GGUF", SLUICE_END_OF_FILE, {"GGUF header", "byte 4"});
  refused(good.substr(0, 60), SLUICE_END_OF_FILE, {"GGUF header", "cut off"});
  refused(good.substr(0, good.size() - 40), SLUICE_END_OF_FILE, {"'second'", "24 bytes of data"});
  CHECK(good.size() % 32 == 0);
  folder.write("m.gguf", good.substr(0, good.size() - 28) + "rest of any length");
  CHECK(names_of(open(machine, path)) == Names{"first", "second"});
  folder.write("model.safetensors.index.json", index_of({{"first", "m.gguf"}}));
  check_refused(machine, folder.path(), SLUICE_BAD_FORMAT, {path, "looks like a GGUF file"});
}

TEST_CASE("every system call fails once; short and interrupted reads are everyday") {
  const Machine machine;
  const Folder safetensors, set;
  safetensors.write("a.safetensors", shard_of({"one"}));
  safetensors.write("b.safetensors", shard_of({"two"}));
  safetensors.write("model.safetensors.index.json",
                    index_of({{"one", "a.safetensors"}, {"two", "b.safetensors"}}));
  write_set(set, {{"one"}, {"two"}});
  static int calls = 0;
  static int fails_at = 0;
  sluice::OsTable table = sluice::os_native();
  table.open_read = [](const char *path) {
    return ++calls == fails_at ? -EMFILE : sluice::os_native().open_read(path);
  };
  table.file_facts = [](int descriptor, sluice::FileFacts *out) {
    return ++calls == fails_at ? -EIO : sluice::os_native().file_facts(descriptor, out);
  };
  table.read_at = [](int descriptor, void *buffer, size_t bytes, uint64_t offset) -> int64_t {
    if (++calls == fails_at) return -EIO;
    if (calls % 5 == 0) return -EINTR;
    return sluice::os_native().read_at(descriptor, buffer, std::min<size_t>(bytes, 7), offset);
  };
  for (const Folder &folder : {std::cref(safetensors), std::cref(set)}) {
    sluice::os_replace(&table);
    const size_t before = support::open_descriptors();
    sluice_status status = SLUICE_INTERNAL;
    int failed = 0;
    for (fails_at = 1; status != SLUICE_OK; ++fails_at) {
      calls = 0;
      sluice_checkpoint *checkpoint = nullptr;
      status = sluice_checkpoint_open(machine.get(), folder.path().c_str(), &checkpoint);
      if (status == SLUICE_OK) {
        CHECK(sluice_checkpoint_close(checkpoint) == SLUICE_OK);
      } else {
        ++failed;
        CHECK(checkpoint == nullptr);
        CHECK((status == SLUICE_OUT_OF_FILE_DESCRIPTORS || status == SLUICE_IO_ERROR));
        CHECK(last_message().find(folder.path()) != std::string::npos);
      }
      CHECK(support::open_descriptors() == before);
      REQUIRE(fails_at < 1000);
    }
    CHECK(failed > 10);
    sluice::os_replace(nullptr);
    CHECK(names_of(open(machine, folder.path())) == Names{"one", "two"});
  }
}

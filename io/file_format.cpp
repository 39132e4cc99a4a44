#include "io/file_format.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "io/gguf_set.h"
#include "io/safetensors.h"

namespace sluice {
namespace {

// Enough for the header of a model without a vocabulary; a large one takes a few pieces more.
constexpr uint64_t kFirstPieceBytes = uint64_t{256} << 10;

// The first bytes of a file, more of them when asked.
class Start {
 public:
  explicit Start(const File &file) : file_(file) {}

  Status grow(uint64_t bytes) {
    if (bytes <= bytes_) return {};
    auto larger = std::make_unique_for_overwrite<unsigned char[]>(static_cast<size_t>(bytes));
    std::copy_n(start_.get(), bytes_, larger.get());
    SLUICE_TRY(file_.read_exactly(bytes_, larger.get() + bytes_, bytes - bytes_));
    start_ = std::move(larger);
    bytes_ = bytes;
    return {};
  }
  std::span<const unsigned char> bytes() const {
    return {start_.get(), static_cast<size_t>(bytes_)};
  }

 private:
  const File &file_;
  std::unique_ptr<unsigned char[]> start_;
  uint64_t bytes_ = 0;
};

Result<LoadedHeader> load_gguf_header(const File &file) {
  const uint64_t file_bytes = file.size_bytes();
  Start start(file);
  uint64_t wanted = kFirstPieceBytes;
  for (;;) {
    SLUICE_TRY(start.grow(std::min(wanted, file_bytes)));
    Result<GgufParse> parsed = parse_gguf_header(start.bytes(), file_bytes);
    if (!parsed.ok()) return parsed.take_status().with_context(file.path());
    if (parsed.value().header) {
      GgufHeader header = std::move(*parsed.value().header);
      return LoadedHeader{SLUICE_FORMAT_GGUF, std::move(header.header), header.data_offset,
                          header.split};
    }
    wanted = std::max(parsed.value().needed_bytes, 2 * start.bytes().size());
  }
}

Result<bool> is_gguf(const File &file) {
  char magic[kGgufMagic.size()] = {};
  if (file.size_bytes() < sizeof magic) return false;
  SLUICE_TRY(file.read_exactly(0, magic, sizeof magic));
  return std::string_view(magic, sizeof magic) == kGgufMagic;
}

}  // namespace

Result<LoadedHeader> load_header(const File &file) {
  SLUICE_ASSIGN(const bool gguf, is_gguf(file));
  if (gguf) return load_gguf_header(file);
  auto loaded = load_safetensors_header(file);
  if (loaded.ok() || !file.path().ends_with(kGgufEnding)) return loaded;
  return loaded.take_status().with_context(
      "it doesn't start with 'GGUF', and isn't a safetensors file either");
}

Result<LoadedHeader> load_safetensors_header(const File &file) {
  unsigned char prefix[kSafetensorsPrefixBytes] = {};
  const uint64_t file_bytes = file.size_bytes();
  const uint64_t prefix_bytes = std::min<uint64_t>(file_bytes, sizeof prefix);
  SLUICE_TRY(file.read_exactly(0, prefix, prefix_bytes));
  auto bytes = safetensors_header_bytes({prefix, static_cast<size_t>(prefix_bytes)}, file_bytes);
  if (!bytes.ok()) return bytes.take_status().with_context(file.path());
  const auto size = static_cast<size_t>(bytes.value());
  const auto json = std::make_unique_for_overwrite<char[]>(size);
  SLUICE_TRY(file.read_exactly(kSafetensorsPrefixBytes, json.get(), size));
  const uint64_t data_offset = kSafetensorsPrefixBytes + size;
  auto header = parse_safetensors_header({json.get(), size}, file_bytes - data_offset);
  if (!header.ok()) return header.take_status().with_context(file.path());
  return LoadedHeader{SLUICE_FORMAT_SAFETENSORS, header.take(), data_offset, {}};
}

}  // namespace sluice

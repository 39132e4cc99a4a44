#include "io/json_events.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using Json = nlohmann::json;

// Walks over the text and tells where it is: nlohmann's events don't.
class CountingIterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char *;
  using reference = const char &;

  CountingIterator(const char *at, const char **shared) : at_(at), shared_(shared) {}
  reference operator*() const { return *at_; }
  CountingIterator &operator++() {
    *shared_ = ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator &other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator &other) const { return at_ != other.at_; }

 private:
  const char *at_;
  const char **shared_;
};

// "[json.exception.parse_error.101] parse error at line 1, column 2: WHAT; last read: 'BYTES'".
// The bytes may be anything, so they are left out.
std::string_view short_reason(std::string_view message) {
  if (const size_t cut = message.find("; last read"); cut != message.npos) {
    message = message.substr(0, cut);
  }
  if (const size_t column = message.find("column "); column != message.npos) {
    if (const size_t colon = message.find(": ", column); colon != message.npos) {
      message.remove_prefix(colon + 2);
    }
  }
  return message.substr(0, 200);
}

class Adapter {
 public:
  Adapter(const char *begin, size_t *position, JsonEvents &events)
      : begin_(begin), at_(begin), position_(position), events_(events) {}

  const char **shared() { return &at_; }
  size_t end_position() const { return end_position_; }
  Status take_status() { return std::move(status_); }

  bool null() {
    return pass([&] { return events_.other(JsonKind::kNull); });
  }
  bool boolean(bool) {
    return pass([&] { return events_.other(JsonKind::kBoolean); });
  }
  bool number_integer(Json::number_integer_t) {
    return pass([&] { return events_.other(JsonKind::kNegative); });
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    return pass([&] { return events_.whole(value); });
  }
  bool number_float(Json::number_float_t, const Json::string_t &) {
    return pass([&] { return events_.other(JsonKind::kFraction); });
  }
  bool string(Json::string_t &value) {
    return pass([&] { return events_.text(value); });
  }
  bool binary(Json::binary_t &) { return false; }  // no such thing in JSON text
  bool key(Json::string_t &value) {
    return pass([&] { return events_.key(value); });
  }
  bool start_object(std::size_t) { return begin(JsonKind::kObject); }
  bool end_object() { return end(JsonKind::kObject); }
  bool start_array(std::size_t) { return begin(JsonKind::kArray); }
  bool end_array() { return end(JsonKind::kArray); }

  template <typename Exception>
  bool parse_error(std::size_t position, const std::string &, const Exception &exception) {
    status_ = error(SLUICE_BAD_FORMAT, "not JSON at byte {}: {}", position,
                    short_reason(exception.what()));
    return false;
  }

 private:
  template <typename Event>
  bool pass(Event &&event) {
    *position_ = static_cast<size_t>(at_ - begin_);
    if (depth_ == 0) end_position_ = *position_;
    status_ = event();
    return status_.ok();
  }
  bool begin(JsonKind kind) {
    if (++depth_ > kJsonMaxDepth) {
      status_ =
          error(SLUICE_BAD_FORMAT, "more than {} arrays and objects inside one another at byte {}",
                kJsonMaxDepth, at_ - begin_);
      return false;
    }
    return pass([&] { return events_.begin(kind); });
  }
  bool end(JsonKind kind) {
    --depth_;
    return pass([&] { return events_.end(kind); });
  }

  const char *begin_;
  const char *at_;
  size_t *position_;
  size_t end_position_ = 0;
  size_t depth_ = 0;
  JsonEvents &events_;
  Status status_;
};

}  // namespace

const char *json_kind_text(JsonKind kind) noexcept {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBoolean:
      return "a boolean";
    case JsonKind::kNegative:
      return "a negative number";
    case JsonKind::kFraction:
      return "a fraction or a number beyond 64 bits";
    case JsonKind::kWhole:
      return "a number";
    case JsonKind::kText:
      return "a string";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "something";
}

Status parse_json(std::string_view text, JsonEvents &events) {
  Adapter adapter(text.data(), &events.position_, events);
  const CountingIterator first(text.data(), adapter.shared());
  const CountingIterator last(text.data() + text.size(), adapter.shared());
  // Not strict: nlohmann takes a NUL after the JSON for the end of the text, so the rest is checked
  // here.
  const bool parsed = Json::sax_parse(first, last, &adapter, Json::input_format_t::json, false);
  if (!parsed) return adapter.take_status();
  const size_t rest = text.find_first_not_of(" \t\r\n", adapter.end_position());
  if (rest != text.npos) {
    return error(SLUICE_BAD_FORMAT, "{} bytes follow the JSON, from byte {} (only white space may)",
                 text.size() - rest, rest);
  }
  return {};
}

std::string printable(std::string_view text) {
  constexpr size_t kMaxBytes = 160;
  bool cut = false;
  if (text.size() > kMaxBytes) {
    size_t size = kMaxBytes;
    while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
    text = text.substr(0, size);
    cut = true;
  }
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  if (cut) out += "...";
  return out;
}

}  // namespace sluice

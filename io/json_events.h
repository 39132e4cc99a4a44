// A JSON text as a stream of events, without a tree: what the safetensors header and the index of a
// sharded checkpoint are read with.
//
// Threads: none of its own; one JsonEvents belongs to one parse.
// Invariant: the whole text is JSON (RFC 8259, UTF-8) when parse_json returns OK; memory is
// proportional to the text, the stack isn't used for nesting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/status.h"

namespace sluice {

enum class JsonKind { kNull, kBoolean, kNegative, kFraction, kWhole, kText, kArray, kObject };
const char *json_kind_text(JsonKind kind) noexcept;  // "a fraction"

// Receives the events. A failure ends the parse, which then returns it.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual Status begin(JsonKind kind) = 0;  // kArray, kObject
  virtual Status end(JsonKind kind) = 0;
  virtual Status key(std::string_view text) = 0;
  virtual Status text(std::string_view text) = 0;
  virtual Status whole(uint64_t value) = 0;
  virtual Status other(JsonKind kind) = 0;  // kNull, kBoolean, kNegative (also -0), kFraction

  // Bytes of the text that are consumed: just past the event's own text (a number: one more).
  size_t position() const noexcept { return position_; }

 private:
  friend Status parse_json(std::string_view text, JsonEvents &events);
  size_t position_ = 0;
};

// Arrays and objects inside one another; serde_json, which the safetensors library uses, has the
// same limit.
inline constexpr size_t kJsonMaxDepth = 127;

// Returns: OK; BAD_FORMAT (the byte, and what is wrong there); what an event returned. Throws only
// std::bad_alloc.
Status parse_json(std::string_view text, JsonEvents &events);

// A name from a file for an error message: control characters as \xNN, long ones cut. The result is
// UTF-8 when `text` is.
std::string printable(std::string_view text);

}  // namespace sluice

#include "io/utf8.h"

#include <cstddef>
#include <cstdint>

namespace sluice {
namespace {

// The bytes that follow the first one of a character, and the bounds of the first of those.
struct Lead {
  size_t followers;
  uint8_t lowest, highest;
};

bool classify(uint8_t lead, Lead &out) {
  if (lead >= 0xC2 && lead <= 0xDF) {
    out = {1, 0x80, 0xBF};
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    out = {2, static_cast<uint8_t>(lead == 0xE0 ? 0xA0 : 0x80),
           static_cast<uint8_t>(lead == 0xED ? 0x9F : 0xBF)};
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    out = {3, static_cast<uint8_t>(lead == 0xF0 ? 0x90 : 0x80),
           static_cast<uint8_t>(lead == 0xF4 ? 0x8F : 0xBF)};
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  for (size_t i = 0; i < text.size(); ++i) {
    if (byte(i) < 0x80) continue;
    Lead lead = {};
    if (!classify(byte(i), lead) || text.size() - i <= lead.followers) return false;
    if (byte(i + 1) < lead.lowest || byte(i + 1) > lead.highest) return false;
    for (size_t k = 2; k <= lead.followers; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    i += lead.followers;
  }
  return true;
}

}  // namespace sluice

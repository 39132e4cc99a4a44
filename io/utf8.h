// Whether a text is UTF-8. Threads: a pure function.
#pragma once

#include <string_view>

namespace sluice {

// Without overlong forms, surrogates and numbers beyond U+10FFFF (RFC 3629).
bool is_utf8(std::string_view text) noexcept;

}  // namespace sluice

// Text is UTF-8 in the program and UTF-16 in Windows.
#pragma once

#include <string>
#include <string_view>

namespace program {

[[nodiscard]] std::wstring wide(std::string_view text);
[[nodiscard]] std::string utf8(std::wstring_view text);

}  // namespace program

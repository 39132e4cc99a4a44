// Text is UTF-8 in sluice and UTF-16 in Windows.
#pragma once

#include <string>
#include <string_view>

namespace sluice {

std::wstring wide(std::string_view text);
std::string utf8(std::wstring_view text);
// The system's sentence for a code of GetLastError, with the code.
std::string error_text(unsigned long code);

}  // namespace sluice

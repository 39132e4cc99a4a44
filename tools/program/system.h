// What the program asks of the system by itself, files aside (files.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace program {

[[nodiscard]] int process_number();
[[nodiscard]] double processor_seconds();  // that this process has used, on all threads
// A library that stays open until the process ends; null: it can't be opened.
[[nodiscard]] void *open_library(const char *path);
[[nodiscard]] void *library_symbol(void *library, const char *name);  // null: there is none

enum class StandardStream { output = 1, error = 2 };
// Opens what a parent closed of stdin, stdout and stderr, so that no file takes their place.
void secure_standard_streams();
// Below zero: failed, and errno says why.
[[nodiscard]] int64_t write_some(StandardStream stream, std::string_view text);

[[nodiscard]] bool stderr_is_terminal();
[[nodiscard]] size_t terminal_columns();  // 0: unknown

// The command line's arguments in UTF-8, valid until the process ends.
void take_arguments(int *count, char ***arguments);

}  // namespace program

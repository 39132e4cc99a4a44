// What the program asks of the system by itself. Paths are UTF-8. Where nothing else is said an
// answer below zero is a failure, and errno says which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace program {

[[nodiscard]] int open_to_read(const std::string &path);
[[nodiscard]] int open_to_write(const std::string &path);  // made, or emptied
// A new file; the XXXXXX at the end of its path become something else.
[[nodiscard]] int make_temporary(std::string *path);
[[nodiscard]] int close_file(int file);

// At least one byte, or 0 at the end of the file. Threads: any, on one file.
[[nodiscard]] int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset);
[[nodiscard]] int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset);

void remove_file(const std::string &path);
void remove_folder(const std::string &path);                                    // an empty one
[[nodiscard]] int rename_file(const std::string &from, const std::string &to);  // replaces
[[nodiscard]] std::optional<uint64_t> room_in(const std::string &folder);       // in bytes
[[nodiscard]] int process_number();

enum class StandardStream { output = 1, error = 2 };
// Opens what a parent closed of stdin, stdout and stderr, so that no file takes their place.
void secure_standard_streams();
[[nodiscard]] int64_t write_some(StandardStream stream, std::string_view text);

[[nodiscard]] bool stderr_is_terminal();
[[nodiscard]] size_t terminal_columns();  // 0: unknown

// The command line's arguments in UTF-8, valid until the process ends.
void take_arguments(int *count, char ***arguments);

}  // namespace program

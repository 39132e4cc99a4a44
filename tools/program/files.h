// What the program asks of file systems by itself. Paths are UTF-8. Where nothing else is said an
// answer below zero is a failure, and errno says which: EOPNOTSUPP for what can't be done here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace program {

// Never wait, as for the other end of a pipe; folders may open too.
[[nodiscard]] int open_to_read(const std::string &path);
// Around the page cache: offsets, sizes and memory must fit the disk's sectors.
[[nodiscard]] int open_to_read_direct(const std::string &path);
[[nodiscard]] int make_file(const std::string &path);  // a new one, to read and write
// A new file; the XXXXXX at the end of its path become something else.
[[nodiscard]] int make_temporary(std::string *path);
[[nodiscard]] int close_file(int file);

struct FileState {
  uint64_t bytes = 0;
  int64_t written_at = 0;  // changes with each write, as far as the system's clock ticks
  bool regular = false;
};
[[nodiscard]] std::optional<FileState> state_of(int file);

// At least one byte, or 0 at the end of the file. Threads: any, on one file.
[[nodiscard]] int64_t read_at(int file, void *buffer, uint64_t bytes, uint64_t offset);
[[nodiscard]] int64_t write_at(int file, const void *data, uint64_t bytes, uint64_t offset);
// Without a way through this process; 0 at the end of the file.
[[nodiscard]] int64_t copy_range(int from, uint64_t from_offset, int to, uint64_t to_offset,
                                 uint64_t bytes);
void will_read_in_order(int file);                         // a hint
[[nodiscard]] int reserve_room(int file, uint64_t bytes);  // on the disk, for a file of that size
[[nodiscard]] int sync_file(int file);
void sync_folder(const std::string &path);  // as far as the file system can be told so

void remove_file(const std::string &path);
[[nodiscard]] int make_folder(const std::string &path);
void remove_folder(const std::string &path);  // an empty one
// Of a file or a folder. The first replaces a file; the second fails with EEXIST if something is
// there, as far as the file system can; the third lets two things that are there change names.
[[nodiscard]] int rename_over(const std::string &from, const std::string &to);
[[nodiscard]] int rename_new(const std::string &from, const std::string &to);
[[nodiscard]] int exchange_names(const std::string &a, const std::string &b);
[[nodiscard]] std::optional<uint64_t> room_in(const std::string &folder);  // in bytes
// "folder/" names a folder even if there is none.
[[nodiscard]] bool ends_with_separator(std::string_view path);

// The page cache. Best effort: pages that another program has mapped stay in it.
extern const bool kCanDropFromCache;
void drop_from_cache(int file);
// The cached part of the first `bytes`, 0 .. 1; nothing where the system doesn't tell.
[[nodiscard]] std::optional<double> cached_part(const std::string &path, int file, uint64_t bytes);
// Read-only memory that is the file's first `bytes`, at least 1; null: failed. `at_once`: all of
// it is going to be read, and the pages may be mapped together.
[[nodiscard]] void *map_file(int file, uint64_t bytes, bool at_once);
void unmap_file(void *memory, uint64_t bytes);

}  // namespace program

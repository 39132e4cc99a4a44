// What tests ask of the process that they run in.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace support {

void set_environment(const char *name, const char *value);  // nullptr: unset
size_t open_descriptors();
size_t running_threads();  // 0 where that can't be told
// As many open files as that at most, or as before with 0. False: not possible here.
bool limit_descriptors(size_t count);

std::string own_program();  // its path
// Runs this program once more, waits, and returns its exit code.
int run_self(const std::vector<std::string> &arguments);
const char *null_device();

}  // namespace support

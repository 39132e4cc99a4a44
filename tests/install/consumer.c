// A program as a user writes it: built against the installed header and libraries only.
#include <sluice.h>
#include <stdio.h>
#include <string.h>

int main(int argument_count, char **arguments) {
  sluice_options options = SLUICE_OPTIONS_INIT;
  sluice_error error = SLUICE_ERROR_INIT;
  sluice_runtime *runtime = NULL;
  uint64_t bytes = 0;
  if (sluice_version() != SLUICE_VERSION_MAJOR * 1000000 + SLUICE_VERSION_MINOR * 1000 +
                              SLUICE_VERSION_PATCH) {
    fprintf(stderr, "the library's version is %u\n", sluice_version());
    return 1;
  }
  if (sluice_parse_size("256MiB", &bytes) != SLUICE_OK || bytes != 268435456u) {
    fprintf(stderr, "256MiB is %llu bytes\n", (unsigned long long)bytes);
    return 1;
  }
  // A failure passes through the library's own exceptions and error record.
  options.driver = "/nonexistent/driver.so";
  if (sluice_runtime_create(&options, &runtime) != SLUICE_NO_DRIVER || runtime != NULL) {
    fprintf(stderr, "a missing driver is not reported as NO_DRIVER\n");
    return 1;
  }
  if (sluice_error_get(&error) != SLUICE_OK || strstr(error.message, "/nonexistent/") == NULL) {
    fprintf(stderr, "the error record doesn't name the driver: %s\n", error.message);
    return 1;
  }
  // The shared library finds the emulated driver that is installed with it; an archive is part
  // of the program, which says where the driver is.
  options.driver = argument_count > 1 ? arguments[1] : "emulated";
  if (sluice_runtime_create(&options, &runtime) != SLUICE_OK) {
    sluice_error_get(&error);
    fprintf(stderr, "the emulated driver: %s\n", error.message);
    return 1;
  }
  if (sluice_runtime_destroy(runtime) != SLUICE_OK) return 1;
  puts("consumer: ok");
  return 0;
}

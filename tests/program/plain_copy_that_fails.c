// copy_file_range of a machine that is worse than this one, loaded before the C library. What is
// wrong with it stands in SLUICE_TEST_COPY:
//   damage       every copy has one wrong byte
//   unsupported  not between these files
//   full         no space left, after the first copy
//   touch        somebody writes to the source meanwhile
//   slow         half a second for each copy
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static ssize_t copy(int in, off_t *in_offset, int out, off_t *out_offset, size_t bytes,
                    int damage) {
  static char buffer[1 << 16];
  const ssize_t got = pread(in, buffer, bytes < sizeof buffer ? bytes : sizeof buffer, *in_offset);
  if (got <= 0) return got;
  if (damage) buffer[got / 2] ^= 1;
  const ssize_t put = pwrite(out, buffer, (size_t)got, *out_offset);
  if (put <= 0) return put;
  *in_offset += put;
  *out_offset += put;
  return put;
}

ssize_t copy_file_range(int in, off_t *in_offset, int out, off_t *out_offset, size_t bytes,
                        unsigned flags) {
  static int calls;
  const char *fault = getenv("SLUICE_TEST_COPY");
  (void)flags;
  ++calls;
  if (fault == NULL) fault = "";
  if (strcmp(fault, "unsupported") == 0) return errno = EXDEV, -1;
  if (strcmp(fault, "full") == 0 && calls > 1) return errno = ENOSPC, -1;
  if (strcmp(fault, "slow") == 0) nanosleep(&(struct timespec){.tv_nsec = 500 * 1000 * 1000}, NULL);
  if (strcmp(fault, "touch") == 0) futimens(in, (const struct timespec[2]){{1, 0}, {1, 0}});
  return copy(in, in_offset, out, out_offset, bytes, strcmp(fault, "damage") == 0);
}

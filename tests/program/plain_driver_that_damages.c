/* A CUDA driver that stores a wrong byte: the emulated driver in all but this, that the copies to a
 * device whose number (from 1) is a multiple of SLUICE_TEST_DAMAGE are followed by a write of
 * another value to their middle byte, in stream order. It shows that `sluice load --verify` sees
 * it. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "plain_driver_next.h"

typedef int Result; /* CUresult */
typedef unsigned long long DeviceAddress;
typedef void *Stream;
typedef Result (*CopyToDevice)(DeviceAddress, const void *, size_t, Stream);
typedef Result (*SetBytes)(DeviceAddress, unsigned char, size_t, Stream);
typedef Result (*GetProcAddress)(const char *, void **, int, unsigned long long, void *);

enum { kNotFound = 500, kOldestVersion = 11080 };

static CopyToDevice real_copy;
static SetBytes real_set;
static atomic_ulong copies;

static Result copy_and_damage(DeviceAddress target, const void *source, size_t bytes,
                              Stream stream) {
  const char *every = getenv("SLUICE_TEST_DAMAGE");
  const unsigned long period = every ? strtoul(every, NULL, 10) : 0;
  const unsigned long number = atomic_fetch_add(&copies, 1) + 1;
  const unsigned char middle = ((const unsigned char *)source)[bytes / 2];
  const Result result = real_copy(target, source, bytes, stream);
  if (result != 0 || period == 0 || number % period != 0) return result;
  return real_set(target + bytes / 2, (unsigned char)(middle ^ 0x10), 1, stream);
}

Result cuGetProcAddress_v2(const char *name, void **address, int version, unsigned long long flags,
                           void *status) {
  const GetProcAddress real = (GetProcAddress)symbol_of_emulated_driver("cuGetProcAddress_v2");
  if (!real) return kNotFound;
  if (strcmp(name, "cuMemcpyBatchAsync") == 0) { /* copies come one by one */
    *address = NULL;
    return kNotFound;
  }
  const Result result = real(name, address, version, flags, status);
  if (result != 0 || strcmp(name, "cuMemcpyHtoDAsync") != 0) return result;
  real_copy = (CopyToDevice)*address;
  *address = (void *)copy_and_damage;
  return real("cuMemsetD8Async", (void **)&real_set, kOldestVersion, flags, status);
}

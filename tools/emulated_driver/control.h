/* Control of the emulated CUDA driver, for tests and benchmarks. C11; needs only stddef and stdint.
 *
 * The functions are exported by libsluice_emulated_driver.so (and by its libcuda.so.1 variant).
 * All of them may be called from any thread at any time, need no context, pass no gate (they are
 * neither counted, delayed nor made to fail) and never wait for queued work, unless noted.
 *
 * Settings, by name. In the environment each is SLUICE_EMULATED_<NAME>; it is read when the library
 * is first used and again by sluice_emulated_reset. Sizes take KiB, MiB, GiB (or K, M, G) suffixes.
 *
 *   VERSION               reported driver version: 11080, 12040, 12080, 13000 (default 13000)
 *   DEVICES               number of devices, 0 to 8 (default 1); taken at cuInit
 *   MEMORY                bytes of memory of each device (default 16GiB); taken at cuInit
 *   GRANULARITY           bytes, a power of two from 64KiB on (default 2MiB); taken at cuInit
 *   H2D_BANDWIDTH         bytes per second host to device, 0: as fast as the copy runs (default)
 *   D2H_BANDWIDTH         bytes per second device to host, likewise
 *   COPY_ENGINES          copies between host and device that run at a time (default 2); with 1
 *                         both directions also share one link
 *   KERNEL_TIME           nanoseconds that a kernel takes at least (default 0)
 *   CALL_LATENCY          nanoseconds that every call takes at least (default 0)
 *   PINNED_LIMIT          bytes of pinned host memory; beyond it OUT_OF_MEMORY (default 0: none)
 *   FAIL                  faults, comma separated: see sluice_emulated_arm_fault
 *   SET_ACCESS_NOT_READY  the next n calls of cuMemSetAccess answer NOT_READY (default 0)
 *   ABSENT                entry points (base names) and features, comma separated; features are
 *                         vmm, stream_get_id, memcpy_batch, read_only_host_register, host_vmm
 *   MISUSE                abort: print and abort(); log: count, keep the text, print it once
 *                         (default); off: detect nothing (benchmarks)
 *   LEAKS                 where leaks are reported: all (default); release: only when the last
 *                         reference to a primary context goes, not at process exit (all is the
 *                         same on Windows); none
 *   HOST_ACCESS           1: device memory is readable and writable by the host at its own
 *                         addresses, once access is set (default 0: it faults); taken at cuInit;
 *                         not on Windows
 *   PRETOUCH              bytes of each device's memory faulted in when its first context is made;
 *                         such memory is not given back to the operating system when released
 *   POISON                1: new device memory is filled with 0xA5 (default: with MISUSE=abort,
 *                         unless PRETOUCH is set)
 *   SHARED                name of a shared-memory file in which processes account for what they
 *                         use of the same devices; taken at cuInit; not on Windows
 */
#ifndef SLUICE_EMULATED_DRIVER_CONTROL_H
#define SLUICE_EMULATED_DRIVER_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(SLUICE_EMULATED_BUILDING)
#define SLUICE_EMULATED_API __declspec(dllexport)
#elif defined(_WIN32)
#define SLUICE_EMULATED_API __declspec(dllimport)
#elif defined(__GNUC__)
#define SLUICE_EMULATED_API __attribute__((visibility("default")))
#else
#define SLUICE_EMULATED_API
#endif

/* Sets one setting. name: as listed above, without prefix; value: text as in the environment, NULL
 * or "" for the default. Setting FAIL or SET_ACCESS_NOT_READY replaces what was armed and counts
 * from now. Returns 0, or -1 when the name is unknown or the value can't be read (nothing changes
 * then). */
SLUICE_EMULATED_API int sluice_emulated_set(const char *name, const char *value);

/* Back to a fresh process's state: settings from the environment, counters, peaks, misuse texts and
 * faults cleared, cuInit needed again. Only when nothing is live. No other thread may be inside a
 * call. Returns 0, or -1 when something is live (nothing changes then). */
SLUICE_EMULATED_API int sluice_emulated_reset(void);

/* Calls since start or reset of one entry point, all its forms together (base name, "cuMemMap"),
 * those that were made to fail included. 0 for an unknown name. NULL: calls of any kind. */
SLUICE_EMULATED_API uint64_t sluice_emulated_calls(const char *name);

/* What is live. Bytes are bytes; peaks are the highest values since start or reset. */
typedef struct sluice_emulated_live {
  uint64_t contexts;     /* created, and primary ones retained */
  uint64_t reservations; /* address ranges from cuMemAddressReserve */
  uint64_t reserved_bytes;
  uint64_t physical_handles; /* cuMemCreate's, while a reference or a mapping keeps them */
  uint64_t physical_bytes;   /* device memory in use, allocations included */
  uint64_t mappings;
  uint64_t streams; /* created ones; default streams are not counted */
  uint64_t events;
  uint64_t registrations;
  uint64_t registered_bytes;
  uint64_t host_allocations;
  uint64_t host_allocated_bytes;
  uint64_t device_allocations; /* cuMemAlloc's and cuMemAllocAsync's */
  uint64_t modules;            /* libraries included */
  uint64_t graphs;             /* graphs and executable graphs */
  uint64_t peak_physical_bytes;
  uint64_t peak_pinned_bytes;  /* registered, host-allocated and host-located cuMemCreate memory */
  uint64_t pending_operations; /* queued on streams and not yet done */
} sluice_emulated_live;

/* Fills *out (must not be NULL). A snapshot: exact when no other thread is inside a call. */
SLUICE_EMULATED_API void sluice_emulated_get_live(sluice_emulated_live *out);

/* Misuses seen since start or reset (log mode; abort mode doesn't return). */
SLUICE_EMULATED_API uint64_t sluice_emulated_misuse_count(void);

/* Copies the text of the i-th misuse (from 0; the first 256 are kept) into text, at most capacity
 * bytes with the terminating zero. text may be NULL when capacity is 0. Returns the text's length
 * without the zero, or 0 when there is none. */
SLUICE_EMULATED_API size_t sluice_emulated_misuse_text(uint64_t i, char *text, size_t capacity);

/* Forgets the misuses seen so far. */
SLUICE_EMULATED_API void sluice_emulated_misuse_clear(void);

/* Where the bytes of the device range [address, address + bytes) lie in this process, readable and
 * writable whatever HOST_ACCESS says; NULL when the range is not mapped, or its memory is not
 * contiguous. Valid until the range is unmapped or freed. Doesn't order anything: synchronize
 * first. */
SLUICE_EMULATED_API void *sluice_emulated_host_alias(uint64_t address, size_t bytes);

/* Adds a fault: "name:k:code", the k-th call from now (from 1) of entry point name ("*": of any)
 * returns code and does nothing else. A fourth field gives how many calls in a row fail, or
 * "forever": "cuMemMap:3:2", "*:17:999", "cuMemCreate:1:2:forever". Several may be armed; the first
 * that matches answers. Returns 0, or -1 when the text can't be read. */
SLUICE_EMULATED_API int sluice_emulated_arm_fault(const char *fault);

/* Disarms all faults. */
SLUICE_EMULATED_API void sluice_emulated_disarm_faults(void);

/* How often an armed fault has answered since start or reset. */
SLUICE_EMULATED_API uint64_t sluice_emulated_faults_fired(void);

#ifdef __cplusplus
}
#endif
#endif

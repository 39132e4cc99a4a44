/* SPDX-License-Identifier: Apache-2.0
 *
 * sluice: run models larger than the GPU's memory, and load those that fit as fast as the
 * hardware allows. This is the whole public interface; it is C11 and can be called from any FFI.
 *
 * How the parts fit
 *   runtime      options, log, counters; opens a CUDA driver at run time (or the emulated one)
 *   device       one GPU: its primary context, its VRAM cap, its staging ring
 *   buffer       growable VRAM behind one address that never moves
 *   cast buffer  scratch of one stream
 *   pinned       small page-locked host allocations
 *   file, read   byte ranges of files -> device and/or host addresses, ordered on a stream
 *   checkpoint   safetensors or GGUF file or sharded set: names, types, shapes, ranges, loading
 *
 * Conventions
 *   Threads      Any thread may call anything; calls on one object are safe from several threads
 *                unless its destroy call runs. Every call sets the context that it needs and
 *                restores the caller's current context.
 *   Errors       Functions return SLUICE_OK or another sluice_status; results come last and are
 *                set to NULL or zero on failure. A call did all of what it says or left things as
 *                they were, and the next call works. The failed call, the native code and a
 *                sentence are in a record of the calling thread: sluice_error_get.
 *   Structs      The first member of each options, info and statistics struct is struct_size: set
 *                it to sizeof the struct (the SLUICE_..._INIT macros do). Zero members mean the
 *                documented default. A larger struct than this library knows is accepted when its
 *                unknown tail is zero, else SLUICE_INVALID_ARGUMENT.
 *   Sizes        Bytes, unless the name says otherwise. Device addresses and file sizes: uint64_t.
 *   Streams      A CUstream (or cudaStream_t) as void*, in the device's primary context. NULL and
 *                CU_STREAM_LEGACY are the legacy default stream, CU_STREAM_PER_THREAD (2) is that
 *                of the calling thread. Before its owner destroys a stream that sluice has seen:
 *                sluice_stream_forget.
 *   Destroying   NULL is ignored. What still uses the object is named in the error of the call
 *                or the log; destroy calls are the only ones that can wait for a device.
 *   fork         In a forked child every call answers SLUICE_FORKED and destroy calls do nothing;
 *                no CUDA object survives a fork. Start workers with exec or spawn.
 *   exit         Once exit() has begun nothing calls the driver any more.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#if defined(SLUICE_BUILDING)
#define SLUICE_API __declspec(dllexport)
#elif defined(SLUICE_STATIC)
#define SLUICE_API
#else
#define SLUICE_API __declspec(dllimport)
#endif
#else
#define SLUICE_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0

/* Returns: major * 1000000 + minor * 1000 + patch of the library that runs. */
SLUICE_API uint32_t sluice_version(void);

/* Starts a versioned struct: its size is set, the rest is zero. */
#ifdef __cplusplus
} /* extern "C" */
template <typename Struct>
inline Struct sluice_sized() {
  Struct value{};
  value.struct_size = sizeof(Struct);
  return value;
}
extern "C" {
#define SLUICE_INIT(type) sluice_sized<type>()
#else
#define SLUICE_INIT(type) \
  { .struct_size = sizeof(type) }
#endif

/* ---- Status ------------------------------------------------------------------------------ */

/* X(name, number, sentence). Numbers never change; new ones are appended. */
#define SLUICE_STATUS_LIST(X)                                                                    \
  X(OK, 0, "done")                                                                               \
  X(INVALID_ARGUMENT, 1, "an argument is outside what the function accepts")                     \
  X(INVALID_STATE, 2, "the object is not in a state in which this call is allowed")              \
  X(OUT_OF_DEVICE_MEMORY, 3, "the GPU has no memory left for this")                              \
  X(OUT_OF_HOST_MEMORY, 4, "the machine has no RAM left for this")                               \
  X(OUT_OF_PINNED_MEMORY, 5, "the driver refused to page-lock host memory")                      \
  X(OUT_OF_ADDRESS_SPACE, 6, "no range of addresses of this size could be reserved")             \
  X(OUT_OF_FILE_DESCRIPTORS, 7, "the process or system limit of open files is reached")          \
  X(OUT_OF_LOCKED_MEMORY, 8, "the limit of locked memory (RLIMIT_MEMLOCK) is reached")           \
  X(LIMIT_REACHED, 9, "a limit that the user set would be passed")                               \
  X(NO_DRIVER, 10, "no usable CUDA driver was found")                                            \
  X(DRIVER_TOO_OLD, 11, "the CUDA driver lacks an entry point that is needed")                   \
  X(NO_DEVICE, 12, "there is no such GPU")                                                       \
  X(DRIVER_ERROR, 13, "a CUDA driver call failed")                                               \
  X(DEVICE_LOST, 14, "the CUDA context is broken by an earlier fault; the process must restart") \
  X(NOT_SUPPORTED, 15, "this driver, device or system cannot do this")                           \
  X(NOT_PERMITTED, 16, "the system does not permit this")                                        \
  X(NOT_FOUND, 17, "no such file, tensor or option")                                             \
  X(IO_ERROR, 18, "reading failed")                                                              \
  X(END_OF_FILE, 19, "the file ends before the bytes that it should hold")                       \
  X(BAD_FORMAT, 20, "the file is not what its format demands")                                   \
  X(CANCELLED, 21, "cancelled by the caller")                                                    \
  X(BUSY, 22, "still in use")                                                                    \
  X(STREAM_CAPTURING, 23, "the stream is capturing a graph; this call cannot be captured")       \
  X(FORKED, 24, "this process is a forked child; CUDA and sluice do not survive fork")           \
  X(SYSTEM_ERROR, 25, "an operating-system call failed")                                         \
  X(INTERNAL, 26, "a bug in sluice")                                                             \
  X(TIMED_OUT, 27, "the time that the caller gave has passed")

typedef enum sluice_status {
#define SLUICE_STATUS_ENUM(name, number, sentence) SLUICE_##name = number,
  SLUICE_STATUS_LIST(SLUICE_STATUS_ENUM)
#undef SLUICE_STATUS_ENUM
} sluice_status;

/* Static text of a status: "OUT_OF_DEVICE_MEMORY", and its sentence. "UNKNOWN" and a sentence
 * that says so for other numbers. status: a sluice_status, or the number in a sluice_error. */
SLUICE_API const char *sluice_status_name(int32_t status);
SLUICE_API const char *sluice_status_text(int32_t status);

typedef enum sluice_error_domain {
  SLUICE_DOMAIN_NONE = 0,   /* no native code */
  SLUICE_DOMAIN_CUDA = 1,   /* code is a CUresult */
  SLUICE_DOMAIN_SYSTEM = 2, /* code is an errno value */
  SLUICE_DOMAIN_WINDOWS = 3 /* code is a GetLastError value */
} sluice_error_domain;

typedef struct sluice_error {
  uint32_t struct_size;
  int32_t status;     /* sluice_status */
  int32_t domain;     /* sluice_error_domain */
  int32_t code;       /* native code, 0 when domain is NONE */
  char call[64];      /* the driver or system call that failed, "" when none did */
  char message[1024]; /* what failed, on what (path, tensor, offset, limit), and a remedy */
} sluice_error;
#define SLUICE_ERROR_INIT SLUICE_INIT(sluice_error)

/* The record of the last failed call on this thread. Successful calls leave it alone.
 *   out_error  not NULL, struct_size set.
 * Returns: OK; INVALID_ARGUMENT. */
SLUICE_API sluice_status sluice_error_get(sluice_error *out_error);

/* ---- Options ----------------------------------------------------------------------------- */

typedef enum sluice_log_level {
  SLUICE_LOG_DEFAULT = 0, /* SLUICE_LOG_LEVEL in the environment, else warning */
  SLUICE_LOG_OFF = 1,
  SLUICE_LOG_ERROR = 2,
  SLUICE_LOG_WARNING = 3,
  SLUICE_LOG_INFO = 4,
  SLUICE_LOG_DEBUG = 5
} sluice_log_level;

/* Receives one line without a newline, "[sluice][part] text". Called from any thread, never with
 * a lock held; it must not call sluice. */
typedef void (*sluice_log_function)(void *user, sluice_log_level level, const char *line);

typedef enum sluice_switch {
  SLUICE_DEFAULT = 0, /* the environment's value, else auto */
  SLUICE_AUTO = 1,
  SLUICE_ON = 2,
  SLUICE_OFF = 3
} sluice_switch;

typedef enum sluice_io_backend {
  SLUICE_IO_DEFAULT = 0, /* the environment's value, else auto */
  SLUICE_IO_AUTO = 1,
  SLUICE_IO_URING = 2,  /* io_uring, on Windows a completion port; an error where it is refused */
  SLUICE_IO_THREADS = 3 /* positioned reads on worker threads */
} sluice_io_backend;

#define SLUICE_NO_LIMIT UINT64_MAX

/* Each member is also an environment variable and a command-line flag; a member that is zero takes
 * the environment's value, and where that is unset too, the default given here. */
typedef struct sluice_options {
  uint32_t struct_size;
  uint32_t log_level;               /* sluice_log_level. SLUICE_LOG_LEVEL, --log-level */
  sluice_log_function log_function; /* NULL: lines go to stderr */
  void *log_user;
  const char *driver;  /* "auto" (default: the machine's), "emulated", the path of a driver library,
                          or "none": files and checkpoints only, no devices. Borrowed for the
                          create call. SLUICE_DRIVER, --driver */
  uint64_t vram_limit; /* bytes of VRAM that sluice may hold on each device; default: no limit
                          but the headroom. SLUICE_VRAM_LIMIT, --vram-limit */
  uint64_t vram_headroom; /* bytes of each device left to others; default 0.
                             SLUICE_VRAM_HEADROOM, --vram-headroom */
  uint64_t pinned_limit;  /* bytes of page-locked host memory; default: available RAM (of machine
                             and container) above the floor of max(2 GiB, but at most a quarter of
                             a container's limit). SLUICE_PINNED_LIMIT, --pinned-limit */
  uint64_t ring; /* bytes of the staging ring of each device; 128 KiB .. 1 GiB, rounded down to
                    whole slots, which a small ring makes smaller unless `slot` is given; default 2
                    slots for each reading thread, less where the pinned limit or the driver leaves
                    less. SLUICE_RING, --ring */
  uint64_t slot; /* bytes of one slot; multiple of 4096, 64 KiB .. 64 MiB; default 2 MiB,
                    4 MiB from 8 reading threads on. SLUICE_SLOT, --slot */
  uint32_t io;   /* sluice_io_backend. SLUICE_IO, --io */
  uint32_t io_workers; /* reading threads of each device, 1 .. 64; default: 3 of 4 processors, 2
                          to 12. SLUICE_IO_WORKERS, --io-workers */
  uint32_t direct_io;  /* sluice_switch. auto: what isn't in the page cache is read directly where
                          the file system can and measurement doesn't favour buffered reads; it
                          doesn't stay in the page cache either way. on: wherever it can. off:
                          through the page cache, where it stays. SLUICE_DIRECT_IO, --direct-io */
  uint32_t fast_disk;  /* sluice_switch. May bytes without a pin leave RAM to be read again from
                          disk? Recorded for placement; loading whole checkpoints doesn't ask it.
                          SLUICE_FAST_DISK, --fast-disk (without a value: on) */
  uint32_t huge_pages; /* sluice_switch. Transparent huge pages for pinned memory.
                          SLUICE_HUGE_PAGES, --huge-pages */
} sluice_options;
#define SLUICE_OPTIONS_INIT SLUICE_INIT(sluice_options)

/* Sets one option by name.
 *   name   as a flag without dashes, "vram-limit".
 *   value  as on a command line: sizes like 4096, 256MiB, 8GiB, 1.5GB, "none" for no limit.
 *          NULL: the value that the bare flag means (fast-disk: on). Text is borrowed, not copied.
 * Returns: OK; NOT_FOUND (no such option); INVALID_ARGUMENT (names option, value, bounds). */
SLUICE_API sluice_status sluice_options_set(sluice_options *options, const char *name,
                                            const char *value);

/* Takes the flags that sluice knows ("--name value", "--name=value") out of a command line and
 * sets them; leaves everything else, and everything after "--", in place.
 *   argument_count, arguments  as main gets them; [0] is skipped. Both are updated.
 * Returns: as sluice_options_set; on failure the command line is unchanged. */
SLUICE_API sluice_status sluice_options_take_flags(sluice_options *options, int *argument_count,
                                                   char **arguments);

/* The i-th option, for help texts: its name, the values it takes, what it means. All static.
 * Returns: true; false when i is past the end (then results are NULL). */
SLUICE_API bool sluice_options_describe(uint32_t index, const char **out_name,
                                        const char **out_values, const char **out_help);

/* Parses "256MiB" and the like, as options do. Returns: OK; INVALID_ARGUMENT. */
SLUICE_API sluice_status sluice_parse_size(const char *text, uint64_t *out_bytes);

/* ---- Runtime ----------------------------------------------------------------------------- */

/* Threads: any. Several may exist, also on different drivers. Destroy it after its devices, files
 * and checkpoints are closed. */
typedef struct sluice_runtime sluice_runtime;

/* Opens the driver and initialises it (cuInit); touches no device.
 *   options  NULL: all defaults.
 * Returns: OK; INVALID_ARGUMENT; NO_DRIVER (names what was tried, and the emulated driver);
 *          DRIVER_TOO_OLD; NO_DEVICE; OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_runtime_create(const sluice_options *options,
                                               sluice_runtime **out_runtime);

/* Returns: OK; BUSY (devices, files or checkpoints are open: nothing was destroyed). */
SLUICE_API sluice_status sluice_runtime_destroy(sluice_runtime *runtime);

/* Changes the cap on page-locked memory at once. Lowering it below what is in use refuses further
 * use and takes nothing away from it. SLUICE_NO_LIMIT lifts it. */
SLUICE_API sluice_status sluice_runtime_set_pinned_limit(sluice_runtime *runtime, uint64_t bytes);

/* X(name, meaning). Counters only grow, from the creation of the runtime; gauges say so. */
#define SLUICE_STATS_LIST(X)                                                               \
  X(pinned_bytes, "gauge: host bytes that are registered with the driver now")             \
  X(pinned_peak_bytes, "gauge: the most that were registered at one time")                 \
  X(pinned_limit_bytes, "gauge: the cap on registered bytes; UINT64_MAX for none")         \
  X(vram_bytes, "gauge: bytes of physical VRAM held now on all devices, mapped or pooled") \
  X(vram_peak_bytes, "gauge: the most that were held at one time")                         \
  X(vram_pooled_bytes, "gauge: bytes of physical VRAM that are pooled for reuse")          \
  X(handles_created, "physical VRAM handles created")                                      \
  X(handles_reused, "physical VRAM handles taken from the pool")                           \
  X(handles_released, "physical VRAM handles given back to the driver")                    \
  X(maps, "handles mapped")                                                                \
  X(unmaps, "ranges unmapped")                                                             \
  X(access_grants, "calls that granted access to mapped ranges")                           \
  X(access_retries, "such calls tried again because the driver answered not ready")        \
  X(registrations, "host ranges registered with the driver")                               \
  X(unregistrations, "host ranges unregistered")                                           \
  X(reads, "read operations completed")                                                    \
  X(direct_reads, "of them, around the page cache")                                        \
  X(bytes_read, "bytes that reads delivered, alignment included")                          \
  X(reads_retried, "reads repeated after a short count, EINTR or EAGAIN")                  \
  X(copies, "copies to a device queued")                                                   \
  X(bytes_copied, "bytes copied to devices")                                               \
  X(slot_waits, "host waits for the copy of the oldest ring slot")                         \
  X(stream_waits, "host waits for one event or stream")                                    \
  X(device_waits, "host waits for a whole context")                                        \
  X(direct_io_fallbacks, "files that went on buffered because direct reads were refused")  \
  X(fixed_buffer_fallbacks, "rings that could not register their buffers")                 \
  X(uring_fallbacks, "times that positioned reads took the place of io_uring")             \
  X(ring_shrinks, "times that the staging ring was made smaller than asked")               \
  X(huge_page_fallbacks, "pinned ranges that asked for huge pages in vain")

typedef struct sluice_stats {
  uint32_t struct_size;
  uint32_t reserved;
#define SLUICE_STATS_MEMBER(name, meaning) uint64_t name;
  SLUICE_STATS_LIST(SLUICE_STATS_MEMBER)
#undef SLUICE_STATS_MEMBER
} sluice_stats;
#define SLUICE_STATS_INIT SLUICE_INIT(sluice_stats)

/* A snapshot; values that move together may be a moment apart. Returns: OK; INVALID_ARGUMENT. */
SLUICE_API sluice_status sluice_stats_get(const sluice_runtime *runtime, sluice_stats *out_stats);

/* What the machine and the driver offer, found by trying. Texts are empty where nothing is to be
 * said; each "remedy" says what would enable what is missing. */
typedef struct sluice_report {
  uint32_t struct_size;
  int32_t driver_version; /* as cuDriverGetVersion: 13000 is 13.0 */
  char driver_path[256];  /* the library that was opened */
  bool driver_emulated;
  bool io_uring;               /* rings can be made, and a request through one works */
  bool io_uring_fixed_buffers; /* buffers of 64 KiB can be registered */
  bool io_uring_fixed_files;
  uint32_t processors; /* that this process may use */
  uint32_t device_count;
  uint32_t reserved;
  uint64_t ram_bytes;
  uint64_t ram_available_bytes;   /* of the machine */
  uint64_t container_limit_bytes; /* cgroup v1 or v2; UINT64_MAX for none */
  uint64_t container_used_bytes;
  uint64_t memlock_limit_bytes; /* soft RLIMIT_MEMLOCK; UINT64_MAX for none or exempt */
  uint64_t pinned_limit_bytes;  /* in force */
  char pinned_limit_reason[256];
  char kernel[128];          /* system name and release */
  char huge_pages[64];       /* mode of transparent huge pages */
  char io_uring_reason[256]; /* why not, or which feature was refused */
  char io_uring_remedy[256];
  char memlock_remedy[256];
  char huge_pages_remedy[256];
} sluice_report;
#define SLUICE_REPORT_INIT SLUICE_INIT(sluice_report)

SLUICE_API sluice_status sluice_report_get(sluice_runtime *runtime, sluice_report *out_report);

/* ---- Devices ----------------------------------------------------------------------------- */

/* Threads: any. Close it after its buffers and reads. Opening the same GPU again in one runtime
 * gives the same object; it is closed with the last close. */
typedef struct sluice_device sluice_device;

/* Retains the primary context of GPU `ordinal` (0 .. device_count - 1, as the driver counts) and
 * reads what it can do.
 * Returns: OK; NO_DEVICE; NOT_SUPPORTED (no virtual memory management); OUT_OF_DEVICE_MEMORY;
 *          OUT_OF_HOST_MEMORY; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_device_open(sluice_runtime *runtime, uint32_t ordinal,
                                            sluice_device **out_device);

/* Waits for sluice's own streams, gives back the ring, the pooled memory and the cast buffers of
 * all streams (whose work it waits for), then the context.
 * Returns: OK; BUSY (buffers, pinned allocations or reads exist: nothing was closed). */
SLUICE_API sluice_status sluice_device_close(sluice_device *device);

typedef struct sluice_device_info {
  uint32_t struct_size;
  uint32_t ordinal;
  char name[128];
  uint8_t uuid[16];
  char pci_bus_id[16];
  int32_t compute_major, compute_minor;
  uint64_t total_bytes;       /* of the device */
  uint64_t free_bytes;        /* by the driver, now */
  uint64_t granularity_bytes; /* of physical handles */
  uint64_t limit_bytes;       /* the cap in force: the smaller of vram_limit and total - headroom */
  uint64_t used_bytes;        /* physical memory that sluice holds on it */
  uint64_t peak_bytes;
  uint64_t ring_bytes; /* of the staging ring; 0 before the first read */
  uint32_t ring_slots;
  uint32_t io_workers;
  int32_t numa_node; /* -1: unknown */
  bool integrated;   /* shares its memory with the processor */
  bool read_only_host_register;
  bool copy_batches; /* the driver has cuMemcpyBatchAsync */
  bool stream_ids;   /* the driver has cuStreamGetId */
} sluice_device_info;
#define SLUICE_DEVICE_INFO_INIT SLUICE_INIT(sluice_device_info)

SLUICE_API sluice_status sluice_device_info_get(sluice_device *device,
                                                sluice_device_info *out_info);

/* Changes the cap on this device's VRAM at once; pooled memory above it is released, what is in
 * use stays and further use is refused. SLUICE_NO_LIMIT lifts it (the headroom stays). */
SLUICE_API sluice_status sluice_device_set_vram_limit(sluice_device *device, uint64_t bytes);

/* Gives back physical memory that is pooled for reuse. `out_bytes` may be NULL. */
SLUICE_API sluice_status sluice_device_trim(sluice_device *device, uint64_t *out_bytes);

/* Tells that the owner is about to destroy `stream`, or that it will not use it with sluice any
 * more. Waits for nothing: what sluice keeps for the stream is given back once the work that is
 * queued now has passed. Unknown streams are ignored.
 * Returns: OK; INVALID_ARGUMENT; STREAM_CAPTURING; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_stream_forget(sluice_device *device, void *stream);

/* The host waits for all work queued on the stream. Returns: OK; DRIVER_ERROR; DEVICE_LOST. */
SLUICE_API sluice_status sluice_stream_synchronize(sluice_device *device, void *stream);

/* Copies device memory to the host after the work queued on `stream`; the host waits for it.
 *   device_address, bytes  a range of mapped device memory; in a buffer of sluice it is checked
 *                          against the mapped part. bytes = 0 copies nothing.
 *   host  `bytes` writable bytes, pinned or not; NULL only with bytes = 0.
 * Returns: OK; INVALID_ARGUMENT; STREAM_CAPTURING; DRIVER_ERROR; DEVICE_LOST. */
SLUICE_API sluice_status sluice_copy_to_host(sluice_device *device, uint64_t device_address,
                                             uint64_t bytes, void *stream, void *host);

/* ---- Growable VRAM buffers --------------------------------------------------------------- */

/* Threads: any; growing and shrinking one buffer are serialised. fork: see above. Destroying with
 * work in flight: the memory is given back after the reads into it, and after the work that
 * sluice_buffer_use told of. */
typedef struct sluice_buffer sluice_buffer;

/* Reserves device addresses; maps nothing and uses no VRAM.
 *   max_bytes  1 .. 16 TiB; rounded up to the device's granularity.
 * Returns: OK; INVALID_ARGUMENT; OUT_OF_ADDRESS_SPACE; OUT_OF_HOST_MEMORY; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_buffer_create(sluice_device *device, uint64_t max_bytes,
                                              sluice_buffer **out_buffer);

/* Maps memory so that at least the first `bytes` can be used; smaller values change nothing. The
 * address stays; waits for no stream, unless a shrunk part is still to be given back: then for
 * the work on that part. New memory has undefined contents.
 * Returns: OK; INVALID_ARGUMENT (above max_bytes); LIMIT_REACHED (vram limit);
 *          OUT_OF_DEVICE_MEMORY; OUT_OF_HOST_MEMORY; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_buffer_grow(sluice_buffer *buffer, uint64_t bytes);

/* Says that work which is queued on `stream` now uses the buffer: its memory outlives that work.
 * Returns: OK; STREAM_CAPTURING; DRIVER_ERROR; OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_buffer_use(sluice_buffer *buffer, void *stream);

/* Gives back what lies past the first `bytes`, as far as whole handles allow, once finished reads
 * into it and the work that sluice_buffer_use told of have passed; the host doesn't wait. The part
 * must not be used by new work. Larger values change nothing.
 * Returns: OK; BUSY (reads into the buffer are in flight); DRIVER_ERROR; OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_buffer_shrink(sluice_buffer *buffer, uint64_t bytes);

/* Never fails, waits for nothing. */
SLUICE_API void sluice_buffer_destroy(sluice_buffer *buffer);

/* The address never changes; 0 for NULL. The size is what is mapped. */
SLUICE_API uint64_t sluice_buffer_address(const sluice_buffer *buffer);
SLUICE_API uint64_t sluice_buffer_size(const sluice_buffer *buffer);

/* ---- Cast buffers ------------------------------------------------------------------------ */

/* Scratch of a stream, in that stream's order: what the caller queues on `stream` after this call
 * may use [address, address + bytes) until the next call for the same stream, whose work is
 * ordered behind. One buffer per stream; it grows to the largest need and never moves.
 *   bytes  1 .. the device's memory.
 * Returns: OK; INVALID_ARGUMENT; STREAM_CAPTURING (it would have to grow); LIMIT_REACHED;
 *          OUT_OF_DEVICE_MEMORY; OUT_OF_ADDRESS_SPACE; OUT_OF_HOST_MEMORY; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_cast_buffer_get(sluice_device *device, void *stream, uint64_t bytes,
                                                uint64_t *out_address);

/* Gives the stream's scratch back once the work queued on it now has passed; waits for nothing.
 * A stream without scratch is no error. Returns: OK; STREAM_CAPTURING; DRIVER_ERROR. */
SLUICE_API sluice_status sluice_cast_buffer_free_stream(sluice_device *device, void *stream);

/* ---- Small pinned allocations ------------------------------------------------------------ */

/* Page-locked host memory from arenas that are registered for all devices of the driver. For small
 * and medium sizes; arenas of 32 MiB are added up to the pinned limit.
 *   bytes      1 .. 16 MiB.
 *   alignment  0 (16), or a power of two up to 2 MiB.
 * Returns: OK; INVALID_ARGUMENT; LIMIT_REACHED (pinned limit); OUT_OF_PINNED_MEMORY;
 *          OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_pinned_alloc(sluice_device *device, uint64_t bytes,
                                             uint64_t alignment, void **out_memory);

/* From any thread. No copy that is still queued may use the memory. NULL is ignored.
 * Returns: OK; INVALID_ARGUMENT (not from sluice_pinned_alloc of this device). */
SLUICE_API sluice_status sluice_pinned_free(sluice_device *device, void *memory);

/* ---- Files and reads --------------------------------------------------------------------- */

/* Threads: any. Close it after the reads that use it. Other programs may delete or replace the
 * path meanwhile; the bytes come from the file that was opened. */
typedef struct sluice_file sluice_file;

/* Returns: OK; NOT_FOUND; NOT_PERMITTED; OUT_OF_FILE_DESCRIPTORS; INVALID_ARGUMENT (not a regular
 * file); SYSTEM_ERROR; OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_file_open(sluice_runtime *runtime, const char *path,
                                          sluice_file **out_file);
/* Returns: OK; BUSY (reads use it: it stays open). */
SLUICE_API sluice_status sluice_file_close(sluice_file *file);

typedef struct sluice_file_info {
  uint32_t struct_size;
  uint32_t direct_alignment; /* bytes, of offset, length and memory of a direct read; 0: none */
  uint64_t size_bytes;
  uint64_t cached_bytes;      /* estimate of what is in the page cache; UINT64_MAX: unknown */
  bool direct_io;             /* a direct read was tried, and worked */
  char direct_io_reason[256]; /* what was tried, and what it answered */
} sluice_file_info;
#define SLUICE_FILE_INFO_INIT SLUICE_INIT(sluice_file_info)

/* Tries a direct read and looks at the page cache. Returns: OK; IO_ERROR; OUT_OF_HOST_MEMORY. */
SLUICE_API sluice_status sluice_file_info_get(sluice_file *file, sluice_file_info *out_info);

/* One byte range of a file and where it goes: to a device address, to host memory, or both. */
typedef struct sluice_read_range {
  sluice_file *file;
  uint64_t file_offset;    /* any alignment; offset + size lies inside the file */
  uint64_t size_bytes;     /* 0 reads nothing */
  uint64_t device_address; /* mapped device memory, any alignment; 0: none */
  void *host_address;      /* any alignment, pinned or not; NULL: none */
  const char *name;        /* for errors, e.g. the tensor's; borrowed until the read is released;
                              NULL: none */
} sluice_read_range;

/* A read in flight. Threads: any, several at once, but for its release. */
typedef struct sluice_read sluice_read;

typedef enum sluice_read_urgency {
  SLUICE_READ_DEMANDED = 0,   /* somebody waits for it */
  SLUICE_READ_SPECULATIVE = 1 /* ahead of need: none of it is begun while a demanded read of the
                                 device has bytes that could be begun */
} sluice_read_urgency;

/* Called once for each range of a read, with its index: with OK when its host bytes are there and
 * its copies are queued (sluice_read_wait_range then only orders a stream behind them), else with
 * what ended the read before it came. All calls have returned before sluice_read_wait does; none
 * comes from a submit that fails. Ranges end in no certain order.
 * Threads: one that reads, or one that submits, cancels or waits; several at once. No lock is held.
 * It delays reads for as long as it takes. It may call anything of sluice, but what would wait for
 * a read that has not ended answers BUSY, and releasing such a read is refused with a line in the
 * log. `read` is what the submit gives, though the submit may not have returned yet. */
typedef void (*sluice_read_range_function)(void *user, sluice_read *read, size_t range,
                                           sluice_status status);

/* Zeros are the defaults. */
typedef struct sluice_read_options {
  uint32_t struct_size;
  uint32_t urgency;    /* sluice_read_urgency */
  uint32_t timeout_ms; /* from the submit on; 0: none. What has not been begun by then is dropped,
                          and sluice_read_wait answers TIMED_OUT. It waits for what had been begun:
                          a read that hangs inside the system can't be called back. */
  uint32_t reserved;   /* 0 */
  sluice_read_range_function on_range; /* NULL: none */
  void *user;                          /* for on_range */
} sluice_read_options;
#define SLUICE_READ_OPTIONS_INIT SLUICE_INIT(sluice_read_options)

/* Starts reading `ranges` (copied). Neighbouring ranges share reads. The copies to the device run
 * after the work that is queued on `stream` now; the host doesn't wait for it.
 *   device     whose ring and copy engine are used; every device address is one of its.
 *   ranges     `count` of them, 1 .. 2^24; their device destinations must not overlap
 *              each other, nor their host destinations (checked).
 *   stream     orders the device destinations.
 *   options    NULL: the defaults.
 * Reads of equal urgency are begun in the order of their submits.
 * Where the pinned limit or the driver leaves no room for the ring, it is made smaller, and at last
 * of pageable memory: slower, said once in the log and the statistics.
 * Returns: OK; INVALID_ARGUMENT (names the range); STREAM_CAPTURING; OUT_OF_HOST_MEMORY;
 *          NOT_SUPPORTED or NOT_PERMITTED (io_uring was demanded and is refused); DRIVER_ERROR. */
SLUICE_API sluice_status sluice_read_submit(sluice_device *device, const sluice_read_range *ranges,
                                            size_t count, void *stream,
                                            const sluice_read_options *options,
                                            sluice_read **out_read);

/* What one device gets of a read; as the arguments of sluice_read_submit. */
typedef struct sluice_read_part {
  sluice_device *device;
  const sluice_read_range *ranges;
  size_t count; /* 1 or more */
  void *stream; /* of that device */
} sluice_read_part;

/* One read for several devices: it ends when all parts have, and the first failure ends them all.
 * Each device's readers read for it, into its ring; a range's index counts on from part to part.
 *   parts   `part_count` of them, 1 .. 64, each for another device; 2^24 ranges in all. Host
 *           destinations must not overlap over all parts.
 * Otherwise as sluice_read_submit, which is this with one part. */
SLUICE_API sluice_status sluice_read_submit_parts(const sluice_read_part *parts, size_t part_count,
                                                  const sluice_read_options *options,
                                                  sluice_read **out_read);

/* Changes the urgency of what has not been begun: a speculative read turns out to be needed, or
 * the other way. Harmless after the end. Returns: OK; INVALID_ARGUMENT. */
SLUICE_API sluice_status sluice_read_set_urgency(sluice_read *read, uint32_t urgency);

/* Waits until every byte is read and every copy is queued, then makes `stream` (that of the
 * submit) wait for the copies: work queued on it afterwards sees the bytes. Host destinations are
 * complete; where a range has both, the host bytes must not change before `stream` has passed
 * this point. May be called again: same answer. With CU_STREAM_PER_THREAD: on the submit's thread.
 * Returns: OK; END_OF_FILE, IO_ERROR, SYSTEM_ERROR, DRIVER_ERROR, OUT_OF_... (names file, range,
 *          offset; destinations of ranges that had not arrived are then undefined, and no work of
 *          this read is in flight any more); CANCELLED; TIMED_OUT; BUSY (inside on_range). */
SLUICE_API sluice_status sluice_read_wait(sluice_read *read);

/* Waits until range `range` has arrived, without the others, then makes `stream` wait for its
 * copies: any stream of its device. Host bytes as with sluice_read_wait. The copies that its
 * reading threads had queued for other ranges meanwhile are waited for too, a ring's worth at most.
 * Returns: OK; INVALID_ARGUMENT (no such range, unknown stream); BUSY (inside on_range, and it has
 *          not arrived); STREAM_CAPTURING; those of sluice_read_wait where the range never came. */
SLUICE_API sluice_status sluice_read_wait_range(sluice_read *read, size_t range, void *stream);

/* Whether it has; doesn't wait. Returns: OK; INVALID_ARGUMENT. */
SLUICE_API sluice_status sluice_read_range_arrived(sluice_read *read, size_t range,
                                                   bool *out_arrived);

/* Bytes that have arrived (device copies: queued) and bytes asked for. Either may be NULL. */
SLUICE_API sluice_status sluice_read_progress(const sluice_read *read, uint64_t *out_done,
                                              uint64_t *out_total);

/* Drops what has not been started; sluice_read_wait then answers CANCELLED, after what had been
 * started has ended. Harmless after the end. */
SLUICE_API sluice_status sluice_read_cancel(sluice_read *read);

/* Ends the read: unless sluice_read_wait has returned, drops what has not been started and waits
 * for the rest. NULL is ignored. */
SLUICE_API void sluice_read_release(sluice_read *read);

/* How the reads of a device have gone so far. */
typedef struct sluice_io_info {
  uint32_t struct_size;
  uint32_t backend;   /* sluice_io_backend of the last read: uring or threads; 0 before the first */
  bool direct;        /* the last read went around the page cache, wholly or in part */
  bool fixed_buffers; /* the ring's memory is registered with io_uring */
  char reason[512];   /* why this backend and path */
} sluice_io_info;
#define SLUICE_IO_INFO_INIT SLUICE_INIT(sluice_io_info)
SLUICE_API sluice_status sluice_io_info_get(sluice_device *device, sluice_io_info *out_info);

/* ---- Checkpoints ------------------------------------------------------------------------- */

/* X(name, number, bits of one element, the name in a safetensors header). */
#define SLUICE_TYPE_LIST(X)            \
  X(BOOL, 1, 8, "BOOL")                \
  X(U8, 2, 8, "U8")                    \
  X(I8, 3, 8, "I8")                    \
  X(U16, 4, 16, "U16")                 \
  X(I16, 5, 16, "I16")                 \
  X(U32, 6, 32, "U32")                 \
  X(I32, 7, 32, "I32")                 \
  X(U64, 8, 64, "U64")                 \
  X(I64, 9, 64, "I64")                 \
  X(F16, 10, 16, "F16")                \
  X(BF16, 11, 16, "BF16")              \
  X(F32, 12, 32, "F32")                \
  X(F64, 13, 64, "F64")                \
  X(F8_E4M3, 14, 8, "F8_E4M3")         \
  X(F8_E5M2, 15, 8, "F8_E5M2")         \
  X(F8_E8M0, 16, 8, "F8_E8M0")         \
  X(F4, 17, 4, "F4")                   \
  X(F6_E2M3, 18, 6, "F6_E2M3")         \
  X(F6_E3M2, 19, 6, "F6_E3M2")         \
  X(C64, 20, 64, "C64")                \
  X(F8_E4M3FNUZ, 21, 8, "F8_E4M3FNUZ") \
  X(F8_E5M2FNUZ, 22, 8, "F8_E5M2FNUZ")

/* The quantised types of GGUF, whose elements are stored in blocks that share scales.
 * X(name, number, elements of one block, bytes of one block, the name in ggml). */
#define SLUICE_BLOCK_TYPE_LIST(X)    \
  X(Q4_0, 23, 32, 18, "Q4_0")        \
  X(Q4_1, 24, 32, 20, "Q4_1")        \
  X(Q5_0, 25, 32, 22, "Q5_0")        \
  X(Q5_1, 26, 32, 24, "Q5_1")        \
  X(Q8_0, 27, 32, 34, "Q8_0")        \
  X(Q8_1, 28, 32, 36, "Q8_1")        \
  X(Q2_K, 29, 256, 84, "Q2_K")       \
  X(Q3_K, 30, 256, 110, "Q3_K")      \
  X(Q4_K, 31, 256, 144, "Q4_K")      \
  X(Q5_K, 32, 256, 176, "Q5_K")      \
  X(Q6_K, 33, 256, 210, "Q6_K")      \
  X(Q8_K, 34, 256, 292, "Q8_K")      \
  X(IQ2_XXS, 35, 256, 66, "IQ2_XXS") \
  X(IQ2_XS, 36, 256, 74, "IQ2_XS")   \
  X(IQ3_XXS, 37, 256, 98, "IQ3_XXS") \
  X(IQ1_S, 38, 256, 50, "IQ1_S")     \
  X(IQ4_NL, 39, 32, 18, "IQ4_NL")    \
  X(IQ3_S, 40, 256, 110, "IQ3_S")    \
  X(IQ2_S, 41, 256, 82, "IQ2_S")     \
  X(IQ4_XS, 42, 256, 136, "IQ4_XS")  \
  X(IQ1_M, 43, 256, 56, "IQ1_M")     \
  X(TQ1_0, 44, 256, 54, "TQ1_0")     \
  X(TQ2_0, 45, 256, 66, "TQ2_0")     \
  X(MXFP4, 46, 32, 17, "MXFP4")      \
  X(NVFP4, 47, 64, 36, "NVFP4")      \
  X(Q1_0, 48, 128, 18, "Q1_0")

/* The numbers never change; new ones are appended, in either list. */
typedef enum sluice_type {
  SLUICE_TYPE_UNKNOWN = 0,
#define SLUICE_TYPE_ENUM(name, number, bits, text) SLUICE_TYPE_##name = number,
  SLUICE_TYPE_LIST(SLUICE_TYPE_ENUM)
#undef SLUICE_TYPE_ENUM
#define SLUICE_TYPE_ENUM(name, number, elements, bytes, text) SLUICE_TYPE_##name = number,
  SLUICE_BLOCK_TYPE_LIST(SLUICE_TYPE_ENUM)
#undef SLUICE_TYPE_ENUM
} sluice_type;

SLUICE_API const char *sluice_type_name(sluice_type type); /* "BF16", "Q4_K"; "UNKNOWN" */

/* Bits of one element; 0 for UNKNOWN and for quantised types, which have blocks instead. */
SLUICE_API uint32_t sluice_type_bits(sluice_type type);

/* The least that is stored of a type: so many elements in so many bytes. 1 in 2 for BF16, 2 in 1
 * for F4, 256 in 144 for Q4_K. Both 0 for UNKNOWN; either result may be NULL. */
SLUICE_API void sluice_type_block(sluice_type type, uint32_t *out_elements, uint32_t *out_bytes);

#define SLUICE_MAX_DIMENSIONS 64

/* Threads: any; it doesn't change after opening. Holds its shards open until it is closed. */
typedef struct sluice_checkpoint sluice_checkpoint;

typedef enum sluice_format {
  SLUICE_FORMAT_UNKNOWN = 0,
  SLUICE_FORMAT_SAFETENSORS = 1,
  SLUICE_FORMAT_GGUF = 2
} sluice_format;

/* Opens a safetensors or GGUF file, a file of a split GGUF set (the others lie beside it), an index
 * of safetensors files, or a directory with one of these: model.safetensors.index.json, or a single
 * .safetensors file, or a single .gguf file or set. Reads and checks headers, no weights.
 * A file that starts with "GGUF" is a GGUF file, whatever its name. Formats:
 *   https://github.com/huggingface/safetensors#format (8-byte little-endian header length, JSON
 *   header of at most 100 MB, data without holes or overlap);
 *   https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian, a
 *   header of at most 256 MiB; holes between tensors are allowed, overlap isn't). The files of a
 *   set are called name-00001-of-00003.gguf and so on, and say so in split.no and split.count.
 * Returns: OK; NOT_FOUND (file, index or shard); BAD_FORMAT (says where and what); END_OF_FILE;
 *          and those of sluice_file_open. */
SLUICE_API sluice_status sluice_checkpoint_open(sluice_runtime *runtime, const char *path,
                                                sluice_checkpoint **out_checkpoint);
/* Returns: OK; BUSY (reads use its files). */
SLUICE_API sluice_status sluice_checkpoint_close(sluice_checkpoint *checkpoint);

typedef struct sluice_checkpoint_info {
  uint32_t struct_size;
  uint32_t shard_count;
  uint64_t tensor_count;
  uint64_t block_count;
  uint64_t data_bytes; /* of all tensors */
  uint32_t format;     /* sluice_format, the same for all shards */
} sluice_checkpoint_info;
#define SLUICE_CHECKPOINT_INFO_INIT SLUICE_INIT(sluice_checkpoint_info)
SLUICE_API sluice_status sluice_checkpoint_info_get(const sluice_checkpoint *checkpoint,
                                                    sluice_checkpoint_info *out_info);

#define SLUICE_NO_BLOCK UINT64_MAX

typedef struct sluice_tensor_info {
  uint32_t struct_size;
  uint32_t type;    /* sluice_type */
  const char *name; /* UTF-8, zero-terminated, lives as long as the checkpoint */
  uint32_t shard;
  uint32_t dimension_count;
  const uint64_t *shape; /* dimension_count values, lives as long as the checkpoint; the dimension
                            that varies slowest comes first (a GGUF file has it last) */
  uint64_t file_offset;  /* of the first byte, in the shard's file */
  uint64_t size_bytes;
  uint64_t block; /* index of its block; SLUICE_NO_BLOCK: outside the blocks */
} sluice_tensor_info;
#define SLUICE_TENSOR_INFO_INIT SLUICE_INIT(sluice_tensor_info)

/* Tensors are in the order of shard and file offset.
 * Returns: OK; INVALID_ARGUMENT (index). */
SLUICE_API sluice_status sluice_checkpoint_tensor(const sluice_checkpoint *checkpoint,
                                                  uint64_t index, sluice_tensor_info *out_info);
/* Returns: OK; NOT_FOUND. */
SLUICE_API sluice_status sluice_checkpoint_find(const sluice_checkpoint *checkpoint,
                                                const char *name, uint64_t *out_index);

/* A block: tensors whose names share everything up to and including a counting number, as in
 * "model.layers.7." or "blk.7.". Lives as long as the checkpoint. */
typedef struct sluice_block_info {
  uint32_t struct_size;
  uint32_t number;    /* the counting number, 7 */
  const char *prefix; /* "model.layers.7." */
  uint64_t tensor_count;
  uint64_t size_bytes;
} sluice_block_info;
#define SLUICE_BLOCK_INFO_INIT SLUICE_INIT(sluice_block_info)
SLUICE_API sluice_status sluice_checkpoint_block(const sluice_checkpoint *checkpoint,
                                                 uint64_t index, sluice_block_info *out_info);

/* A shard's path and file (borrowed: closed with the checkpoint); either result may be NULL. */
SLUICE_API sluice_status sluice_checkpoint_shard(const sluice_checkpoint *checkpoint,
                                                 uint32_t index, const char **out_path,
                                                 sluice_file **out_file);

/* The header's metadata, over all shards: the entries of "__metadata__", or the keys of a GGUF file
 * but for split.*: numbers in decimal, true and false, strings, and of arrays their kind and length
 * only, "[string x 32000]". Returns: true; false past the end. */
SLUICE_API bool sluice_checkpoint_metadata(const sluice_checkpoint *checkpoint, uint64_t index,
                                           const char **out_key, const char **out_value);

/* Called on the loading thread now and then; then return false to cancel. Called once more when all
 * has arrived (bytes_done = bytes_total): then the answer changes nothing. */
typedef bool (*sluice_progress_function)(void *user, uint64_t bytes_done, uint64_t bytes_total);

/* Loads every tensor to its own place in one new buffer, and waits until all copies are queued;
 * `stream` is then ordered behind them (sluice_stream_synchronize waits for the bytes).
 *   alignment      of each tensor's address: 0 (256), or a power of two up to 2 MiB.
 *   options        of the read, NULL: the defaults. A range's index is its tensor's; the read is
 *                  the call's own: not to be released or kept.
 *   progress       NULL: none.
 *   out_buffer     destroy it to give the memory back.
 *   out_addresses  NULL, or tensor_count places: the address of each tensor (of an empty one too).
 * Returns: OK; those of sluice_buffer_create, _grow and sluice_read_wait; CANCELLED. On failure
 *          nothing stays allocated. */
SLUICE_API sluice_status sluice_checkpoint_load(sluice_checkpoint *checkpoint,
                                                sluice_device *device, uint64_t alignment,
                                                void *stream, const sluice_read_options *options,
                                                sluice_progress_function progress, void *user,
                                                sluice_buffer **out_buffer,
                                                uint64_t *out_addresses);

/* Whether bytes of weights that have no pin stay in RAM, or may go and are read again. */
typedef struct sluice_fast_disk_info {
  uint32_t struct_size;
  uint32_t asked; /* sluice_switch: what sluice_options.fast_disk says */
  bool on;        /* they may go */
  uint64_t model_bytes;
  uint64_t ram_room_bytes;   /* available RAM, of machine and container, above the floor */
  uint64_t disk_bytes_per_s; /* to the device, around the page cache; 0: not measured */
  uint64_t ram_bytes_per_s;  /* to the device, from RAM that isn't pinned; 0: not measured */
  char reason[256];
} sluice_fast_disk_info;
#define SLUICE_FAST_DISK_INFO_INIT SLUICE_INIT(sluice_fast_disk_info)

/* Decides it for one checkpoint and the disk it lies on. With SLUICE_AUTO: on where the weights
 * don't fit into the RAM that is available now above the floor (sluice_options.pinned_limit says
 * which), or where the disk measures no slower than copying from RAM that isn't pinned. What fits
 * is measured at the first call for a checkpoint and a device: up to 416 MiB are read and 384 MiB
 * copied, in some 0.2 s, with 128 MiB of host memory and one slot of the device's. A later call
 * looks at the RAM anew; where the answer changes, the log says so (SLUICE_LOG_WARNING).
 * Threads: any. Returns: OK; INVALID_ARGUMENT; those of sluice_buffer_grow and sluice_read_wait. */
SLUICE_API sluice_status sluice_checkpoint_fast_disk(sluice_checkpoint *checkpoint,
                                                     sluice_device *device,
                                                     sluice_fast_disk_info *out_info);

/* ---- Ahead of need ----------------------------------------------------------------------- */

/* Converts `count` elements from one floating-point type to another on the GPU, in stream order:
 * F32, F16 and BF16, each to each; round to nearest even, NaN stays NaN.
 *   source, target  device addresses, aligned to their element; they must not overlap. Buffers of
 *                   sluice outlive the work, unless the stream is capturing a graph.
 *   count   0 converts nothing.
 * Returns: OK; INVALID_ARGUMENT (type, alignment, range, overlap); OUT_OF_HOST_MEMORY;
 *          NOT_SUPPORTED (library built without kernels, or no image for this device);
 *          DRIVER_ERROR. */
SLUICE_API sluice_status sluice_cast(sluice_device *device, uint64_t source,
                                     sluice_type source_type, uint64_t target,
                                     sluice_type target_type, uint64_t count, void *stream);

/* Position `index` of `count` (1 .. 2^32), its ceil(log2 count) bits reversed: eviction by rising
 * value leaves every prefix evenly spread. Values are unique for one count, not dense unless it
 * is a power of two. 0 when index >= count. */
SLUICE_API uint64_t sluice_bit_reverse(uint64_t index, uint64_t count);

#ifdef __cplusplus
}
#endif

#endif /* SLUICE_H */

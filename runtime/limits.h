// Every bound of the library, by name, with the assertions between them.
#pragma once

#include <cstdint>

namespace sluice {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
inline constexpr uint64_t kTiB = uint64_t{1} << 40;

// Alignment of direct reads, whatever a disk would allow: 4 KiB sectors are common.
inline constexpr uint64_t kDirectAlignment = 4096;

inline constexpr uint64_t kMinSlotBytes = 64 * kKiB;
inline constexpr uint64_t kDefaultSlotBytes = 2 * kMiB;
// Many threads take turns at the driver: with larger pieces they do so less often.
inline constexpr uint64_t kManyThreadsSlotBytes = 4 * kMiB;
inline constexpr uint32_t kManyThreads = 8;
inline constexpr uint64_t kMaxSlotBytes = 64 * kMiB;
inline constexpr uint64_t kMaxRingBytes = kGiB;  // io_uring: at most 1 GiB a registered buffer
inline constexpr uint32_t kMinSlots = 2;

// One slot is read while the other one is copied; a smaller ring stays in the processor cache.
inline constexpr uint32_t kSlotsPerWorker = 2;
inline constexpr uint32_t kDefaultMaxWorkers = 12;
inline constexpr uint32_t kMaxWorkers = 64;
inline constexpr uint32_t kMaxReadAttempts = 64;  // of one operation without any progress
// A thread whose reads hang looks this often whether others have come.
inline constexpr uint32_t kQueuePatienceMs = 20;
inline constexpr uint64_t kMaxRanges = uint64_t{1} << 24;
inline constexpr size_t kMaxReadParts = 64;

inline constexpr uint64_t kArenaBytes = 32 * kMiB;  // mimalloc 2.0.9: multiples of its segment
inline constexpr uint64_t kMaxPinnedAllocation = 16 * kMiB;
inline constexpr uint64_t kMaxPinnedAlignment = 2 * kMiB;
inline constexpr uint32_t kMaxArenas = 56;  // mimalloc 2.0.9 has room for 64 in the process

inline constexpr uint64_t kMaxBufferBytes = 16 * kTiB;
inline constexpr uint64_t kMaxHandleBytes = 512 * kMiB;
inline constexpr uint32_t kAccessAttempts = 8;

inline constexpr uint64_t kTensorAlignment = 256;
inline constexpr uint64_t kMaxTensorAlignment = 2 * kMiB;

inline constexpr uint64_t kRamFloorBytes = 2 * kGiB;

static_assert(kMinSlotBytes % kDirectAlignment == 0);
static_assert(kDefaultSlotBytes <= kManyThreadsSlotBytes && kManyThreadsSlotBytes <= kMaxSlotBytes);
static_assert(kManyThreadsSlotBytes * kSlotsPerWorker * kDefaultMaxWorkers <= 128 * kMiB);
static_assert(kMaxSlotBytes * kMinSlots <= kMaxRingBytes);
static_assert(kMaxPinnedAllocation * 2 <= kArenaBytes);

}  // namespace sluice

// The caching segment allocator of one core: two pools split at 1 MiB, size classes, stream-ordered reuse, exact statistics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace neuron {

class Arena;
class StreamClock;
using StreamId = std::int64_t;

struct Stat {
  std::int64_t current = 0, peak = 0, allocated = 0, freed = 0;
};

enum StatType : std::size_t { kAggregate, kSmallPool, kLargePool, kStatTypes };
using StatArray = std::array<Stat, kStatTypes>;

// Names and meaning are c10::CachingDeviceAllocator's DeviceStats.
struct AllocatorStats {
  StatArray allocation, segment, active, inactive_split;
  StatArray allocated_bytes, reserved_bytes, active_bytes, inactive_split_bytes, requested_bytes;
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_sync_all_streams = 0, num_device_alloc = 0, num_device_free = 0;
};

struct BlockSnapshot {
  std::uintptr_t address;
  std::size_t size, requested;
  bool allocated, active;  // active but not allocated: freed, another stream still uses it
};

struct SegmentSnapshot {
  std::uintptr_t address;
  std::size_t size;
  StreamId stream;
  bool small_pool;
  std::vector<BlockSnapshot> blocks;
};

class Allocator {
 public:
  Allocator(Arena& arena, StreamClock& clock, int device);
  ~Allocator();
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // A block of at least `bytes` (> 0) for use in the order of `stream`. Throws OutOfMemory after freeing the cache and retrying;
  // the text names the request, capacity, allocated, reserved, the largest free block and the knob that helps.
  void* allocate(std::size_t bytes, StreamId stream);
  // Null is ignored. The block may be reused at once by its own stream; by others once their recorded uses have completed.
  void free(void* pointer);
  // `stream` uses this block as well: once freed it is not reused before what was queued there at the time of the free has completed.
  void record_stream(void* pointer, StreamId stream);
  // Gives unused segments back to the system.
  void empty_cache();

  AllocatorStats stats() const;
  void reset_accumulated_stats();
  void reset_peak_stats();
  void set_memory_fraction(double fraction);  // of capacity, in (0, 1]
  std::size_t free_bytes() const;             // capacity − reserved
  std::size_t total_bytes() const;
  // Start and size of the block that contains the address; {0, 0} if none.
  std::pair<std::uintptr_t, std::size_t> block_of(const void* pointer) const;
  std::vector<SegmentSnapshot> snapshot() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neuron

// The allocator's state: all segments and blocks, the tables that find a block by its address, statistics. One lock guards it all.
#pragma once

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/allocator.h"
#include "core/arena.h"
#include "core/block_pool.h"
#include "core/stream_clock.h"

namespace neuron {

struct Allocator::State {
  State(Arena& arena, StreamClock& clock, int device);

  // Takes a free block of the stream's pool, or null.
  Block* take_free(std::size_t size, StreamId stream);
  // Commits a segment with room for size and returns its block, or null. tight: no larger than the request needs.
  Block* commit_segment(std::size_t size, StreamId stream, bool tight);
  // Splits what is left over, and counts the block as allocated.
  void* hand_out(Block* block, std::size_t size, std::size_t requested);
  // Puts a block that nothing uses any more back into its pool, merged with free neighbours.
  void put_back(Block* block);
  // Puts deferred blocks back whose uses have completed.
  void sweep_deferred();
  // Waits for the uses of all deferred blocks, without the lock meanwhile.
  void finish_deferred(std::unique_lock<std::mutex>& lock);
  // Releases all segments without a used block, once their streams have passed; without the lock meanwhile.
  void release_cached(std::unique_lock<std::mutex>& lock);
  void release_segment(Segment& segment);

  // Keeps a freed block from its pool until its recorded uses have completed. False if they have already.
  bool defer(Block& block);

  Block& allocated_block(const char* caller, const void* start) const;  // throws InvalidArgument if there is none
  Block* block_containing(std::uintptr_t address) const;                // or null
  StreamPools& pools_of(StreamId stream);
  std::string out_of_memory_text(std::size_t requested) const;

  struct Deferred {
    Block* block;
    std::vector<std::pair<StreamId, std::uint64_t>> uses;  // stream, position
  };
  struct CFree {
    void operator()(void* memory) const { std::free(memory); }
  };
  template <typename T>
  using Table = std::unique_ptr<T*[], CFree>;  // zero pages until used

  mutable std::mutex mutex;
  Arena& arena;
  StreamClock& clock;
  const int device;
  double memory_fraction = 1.0;
  AllocatorStats stats;
  std::map<std::uintptr_t, Segment> segments;
  std::vector<std::unique_ptr<StreamPools>> pools;  // by stream id
  std::vector<Deferred> deferred;
  Table<Segment> segment_units;  // by kSegmentUnit of the arena: the segment there
  Table<Block>
      large_starts;  // by kSmallRequest of the arena: the block of a large segment that starts there; all of them are at least as large

 private:
  Block* new_block(Segment* segment, std::uintptr_t address, std::size_t size);
  void merge(Block* block, Block* neighbour);  // a free neighbour
  void set_start(Block* block, Block* value);
  void insert_free(Block* block);
  void remove_free(Block* block);
  std::size_t limit() const;  // bytes that may be reserved

  std::deque<Block> block_storage_;
  std::vector<Block*> spare_blocks_;
};

// The block size for a request. Up to 16 KiB multiples of 256 bytes; up to 16 MiB 64 classes per power of two, so that at most a 64th is
// wasted; beyond that multiples of 256 bytes.
std::size_t round_request(std::size_t bytes);

void increase(StatArray& stat, bool small, std::int64_t amount);
void decrease(StatArray& stat, bool small, std::int64_t amount);

}  // namespace neuron

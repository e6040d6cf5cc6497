// Segments cut into blocks, and the free blocks of one stream ordered by size. The allocator's data structures; it holds the lock.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "core/allocator.h"

namespace neuron {

inline constexpr std::size_t kBlockUnit = 256;                      // sizes and addresses of blocks are multiples
inline constexpr std::size_t kSmallRequest = std::size_t{1} << 20;  // largest request of the small pool
inline constexpr std::size_t kSmallSegment = std::size_t{2} << 20;
inline constexpr std::size_t kSmallUnits = kSmallSegment / kBlockUnit;

struct Segment;

// A piece of a segment. Free blocks of the small pool are linked in a bin.
struct Block {
  std::uintptr_t address;
  std::size_t size;
  std::size_t requested;
  Segment* segment;
  Block* previous;  // neighbours in the segment
  Block* next;
  Block* bin_previous;
  Block* bin_next;
  bool allocated;
  bool deferred;                  // freed, but other streams still use it
  std::vector<StreamId> used_by;  // streams other than its own that were recorded

  bool is_split() const { return previous != nullptr || next != nullptr; }
};

// The free blocks of one stream in small segments: one bin per size, so that the best fit is a bit search.
class SmallBins {
 public:
  void insert(Block* block);
  void remove(Block* block);
  Block* best_fit(std::size_t size) const;  // null if none

 private:
  static constexpr std::size_t kBins = kSmallUnits + 1;
  static constexpr std::size_t kWords = (kBins + 63) / 64;
  static constexpr std::size_t kSummaryWords = (kWords + 63) / 64;

  std::array<Block*, kBins> heads_{};
  std::array<std::uint64_t, kWords> words_{};           // bit b of word w: bin 64 w + b is not empty
  std::array<std::uint64_t, kSummaryWords> summary_{};  // the same for words
};

// The free blocks of one stream in large segments, by size and then address.
class LargeTree {
 public:
  void insert(Block* block) { blocks_.insert(block); }
  void remove(Block* block) { blocks_.erase(block); }
  Block* best_fit(std::size_t size) const;

 private:
  struct Key {
    std::size_t size;
  };
  struct BySize {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const { return a->size != b->size ? a->size < b->size : a->address < b->address; }
    bool operator()(const Block* a, Key b) const { return a->size < b.size; }
  };
  std::set<Block*, BySize> blocks_;
};

struct StreamPools {
  SmallBins small;
  LargeTree large;
};

// Committed memory of one pool of one stream.
struct Segment {
  std::uintptr_t address;
  std::size_t size;
  StreamId stream;
  bool small;
  Block* first = nullptr;
  StreamPools* pools = nullptr;
  std::unique_ptr<std::array<Block*, kSmallUnits>> starts;  // small segments: the block that starts at each unit
};

}  // namespace neuron

#include "core/allocator_state.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <new>

#include "core/error.h"

namespace neuron {
namespace {

constexpr std::size_t kLinearClasses = 16384;
constexpr std::size_t kClassedRequest = std::size_t{16} << 20;
constexpr std::size_t kLargeSegment = std::size_t{20} << 20;
constexpr std::size_t kDedicatedRequest = std::size_t{10} << 20;  // from here on a large segment is made to measure

std::size_t round_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

void increase(Stat& stat, std::int64_t amount) {
  stat.current += amount;
  stat.peak = std::max(stat.peak, stat.current);
  stat.allocated += amount;
}

void decrease(Stat& stat, std::int64_t amount) {
  stat.current -= amount;
  stat.freed += amount;
}

template <typename T>
T** zeroed_table(std::size_t entries) {
  void* const table = std::calloc(entries, sizeof(T*));
  if (table == nullptr) throw std::bad_alloc();
  return static_cast<T**>(table);
}

}  // namespace

void increase(StatArray& stat, bool small, std::int64_t amount) {
  increase(stat[kAggregate], amount);
  increase(stat[small ? kSmallPool : kLargePool], amount);
}

void decrease(StatArray& stat, bool small, std::int64_t amount) {
  decrease(stat[kAggregate], amount);
  decrease(stat[small ? kSmallPool : kLargePool], amount);
}

std::size_t round_request(std::size_t bytes) {
  if (bytes <= kLinearClasses || bytes >= kClassedRequest) return round_up(bytes, kBlockUnit);
  return round_up(bytes, std::bit_floor(bytes - 1) / 64);
}

Allocator::State::State(Arena& arena, StreamClock& clock, int device)
    : arena(arena),
      clock(clock),
      device(device),
      segment_units(zeroed_table<Segment>(arena.span() / kSegmentUnit)),
      large_starts(zeroed_table<Block>(arena.span() / kSmallRequest)) {}

Block* Allocator::State::take_free(std::size_t size, StreamId stream) {
  StreamPools& candidates = pools_of(stream);
  Block* const block = size <= kSmallRequest ? candidates.small.best_fit(size) : candidates.large.best_fit(size);
  if (block != nullptr) remove_free(block);
  return block;
}

Block* Allocator::State::commit_segment(std::size_t size, StreamId stream, bool tight) {
  const bool small = size <= kSmallRequest;
  if (size > arena.capacity()) return nullptr;
  const std::size_t bytes = small ? kSmallSegment : size < kDedicatedRequest && !tight ? kLargeSegment : round_up(size, kSegmentUnit);
  const auto reserved = static_cast<std::size_t>(stats.reserved_bytes[kAggregate].current);
  if (reserved + bytes > limit()) return nullptr;
  StreamPools& owner = pools_of(stream);
  void* const memory = arena.commit(bytes);
  if (memory == nullptr) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  Segment& segment = segments.try_emplace(address).first->second;
  segment.address = address;
  segment.size = bytes;
  segment.stream = stream;
  segment.small = small;
  segment.pools = &owner;
  if (small) segment.starts = std::make_unique<std::array<Block*, kSmallUnits>>();
  const std::size_t unit = (address - arena.base()) / kSegmentUnit;
  std::fill_n(segment_units.get() + unit, bytes / kSegmentUnit, &segment);
  segment.first = new_block(&segment, address, bytes);
  increase(stats.segment, small, 1);
  increase(stats.reserved_bytes, small, static_cast<std::int64_t>(bytes));
  ++stats.num_device_alloc;
  return segment.first;
}

void* Allocator::State::hand_out(Block* block, std::size_t size, std::size_t requested) {
  const bool small = block->segment->small;
  const bool was_split = block->is_split();
  const std::size_t rest = block->size - size;
  if (small ? rest > 0 : rest > kSmallRequest) {
    Block* const remainder = new_block(block->segment, block->address + size, rest);
    remainder->previous = block;
    remainder->next = block->next;
    if (block->next != nullptr) block->next->previous = remainder;
    block->next = remainder;
    block->size = size;
    insert_free(remainder);
    if (was_split) {
      decrease(stats.inactive_split_bytes, small, static_cast<std::int64_t>(size));
    } else {
      increase(stats.inactive_split_bytes, small, static_cast<std::int64_t>(rest));
      increase(stats.inactive_split, small, 1);
    }
  } else if (was_split) {
    decrease(stats.inactive_split_bytes, small, static_cast<std::int64_t>(block->size));
    decrease(stats.inactive_split, small, 1);
  }
  block->allocated = true;
  block->requested = requested;
  increase(stats.allocation, small, 1);
  increase(stats.allocated_bytes, small, static_cast<std::int64_t>(block->size));
  increase(stats.active, small, 1);
  increase(stats.active_bytes, small, static_cast<std::int64_t>(block->size));
  increase(stats.requested_bytes, small, static_cast<std::int64_t>(requested));
  return reinterpret_cast<void*>(block->address);
}

void Allocator::State::put_back(Block* block) {
  const bool small = block->segment->small;
  const auto size = static_cast<std::int64_t>(block->size);
  const auto requested = static_cast<std::int64_t>(block->requested);
  std::int64_t split_blocks = 0, split_bytes = 0;  // change of inactive_split
  for (Block* neighbour : {block->previous, block->next}) {
    if (neighbour == nullptr || neighbour->allocated || neighbour->deferred) continue;
    split_blocks -= 1;
    split_bytes -= static_cast<std::int64_t>(neighbour->size);
    merge(block, neighbour);
  }
  insert_free(block);
  if (block->is_split()) {
    split_blocks += 1;
    split_bytes += static_cast<std::int64_t>(block->size);
  }
  if (split_blocks > 0) increase(stats.inactive_split, small, split_blocks);
  if (split_blocks < 0) decrease(stats.inactive_split, small, -split_blocks);
  if (split_bytes > 0) increase(stats.inactive_split_bytes, small, split_bytes);
  if (split_bytes < 0) decrease(stats.inactive_split_bytes, small, -split_bytes);
  decrease(stats.active, small, 1);
  decrease(stats.active_bytes, small, size);
  decrease(stats.requested_bytes, small, requested);
}

bool Allocator::State::defer(Block& block) {
  Deferred entry{&block, {}};
  for (const StreamId user : block.used_by) {
    const std::uint64_t position = clock.submitted(user);
    if (clock.completed(user) < position) entry.uses.emplace_back(user, position);
  }
  block.used_by.clear();
  if (entry.uses.empty()) return false;
  block.deferred = true;
  deferred.push_back(std::move(entry));
  return true;
}

void Allocator::State::sweep_deferred() {
  std::erase_if(deferred, [this](const Deferred& entry) {
    const bool done = std::ranges::all_of(entry.uses, [this](const auto& use) { return clock.completed(use.first) >= use.second; });
    if (done) {
      entry.block->deferred = false;
      put_back(entry.block);
    }
    return done;
  });
}

void Allocator::State::finish_deferred(std::unique_lock<std::mutex>& lock) {
  if (deferred.empty()) return;
  ++stats.num_sync_all_streams;
  std::vector<std::pair<StreamId, std::uint64_t>> uses;
  for (const Deferred& entry : deferred) uses.insert(uses.end(), entry.uses.begin(), entry.uses.end());
  lock.unlock();
  for (const auto& [stream, position] : uses) clock.wait(stream, position);
  lock.lock();
  sweep_deferred();
}

void Allocator::State::release_cached(std::unique_lock<std::mutex>& lock) {
  const auto is_free = [](const Segment& segment) {
    return !segment.first->is_split() && !segment.first->allocated && !segment.first->deferred;
  };
  std::vector<std::pair<StreamId, std::uint64_t>> owners;
  for (const auto& [address, segment] : segments) {
    if (is_free(segment)) owners.emplace_back(segment.stream, clock.submitted(segment.stream));
  }
  std::ranges::sort(owners);
  owners.erase(std::ranges::unique(owners).begin(), owners.end());
  lock.unlock();
  for (const auto& [stream, position] : owners) clock.wait(stream, position);
  lock.lock();
  std::vector<Segment*> free_segments;
  for (auto& [address, segment] : segments) {
    // A free block may still be used by queued commands of its own stream. One that was freed since the wait above stays cached.
    if (is_free(segment) && clock.completed(segment.stream) == clock.submitted(segment.stream)) free_segments.push_back(&segment);
  }
  for (Segment* segment : free_segments) release_segment(*segment);
}

void Allocator::State::release_segment(Segment& segment) {
  remove_free(segment.first);
  set_start(segment.first, nullptr);
  spare_blocks_.push_back(segment.first);
  const std::size_t unit = (segment.address - arena.base()) / kSegmentUnit;
  std::fill_n(segment_units.get() + unit, segment.size / kSegmentUnit, nullptr);
  arena.release(reinterpret_cast<void*>(segment.address), segment.size);
  decrease(stats.segment, segment.small, 1);
  decrease(stats.reserved_bytes, segment.small, static_cast<std::int64_t>(segment.size));
  ++stats.num_device_free;
  segments.erase(segment.address);
}

Block& Allocator::State::allocated_block(const char* caller, const void* start) const {
  const auto address = reinterpret_cast<std::uintptr_t>(start);
  if (arena.contains(start)) {
    const Segment* const segment = segment_units[(address - arena.base()) / kSegmentUnit];
    Block* block = nullptr;
    if (segment != nullptr) {
      block = segment->small ? (*segment->starts)[(address - segment->address) / kBlockUnit]
                             : large_starts[(address - arena.base()) / kSmallRequest];
    }
    if (block != nullptr && block->address == address && block->allocated) return *block;
  }
  char text[96];
  std::snprintf(text, sizeof text, "%s: %p is not an allocated block of neuron:%d", caller, start, device);
  throw InvalidArgument(text);
}

Block* Allocator::State::block_containing(std::uintptr_t address) const {
  if (!arena.contains(reinterpret_cast<const void*>(address))) return nullptr;
  const Segment* const segment = segment_units[(address - arena.base()) / kSegmentUnit];
  if (segment == nullptr) return nullptr;
  const std::size_t unit = segment->small ? kBlockUnit : kSmallRequest;
  Block* const* const starts =
      segment->small ? segment->starts->data() : large_starts.get() + (segment->address - arena.base()) / kSmallRequest;
  for (std::size_t slot = (address - segment->address) / unit;; --slot) {
    if (starts[slot] != nullptr && starts[slot]->address <= address) return starts[slot];
  }
}

StreamPools& Allocator::State::pools_of(StreamId stream) {
  const auto index = static_cast<std::size_t>(stream);
  if (index >= pools.size()) pools.resize(index + 1);
  if (pools[index] == nullptr) pools[index] = std::make_unique<StreamPools>();
  return *pools[index];
}

Block* Allocator::State::new_block(Segment* segment, std::uintptr_t address, std::size_t size) {
  if (spare_blocks_.empty()) spare_blocks_.push_back(&block_storage_.emplace_back());
  Block* const block = spare_blocks_.back();
  spare_blocks_.pop_back();
  block->address = address;
  block->size = size;
  block->requested = 0;
  block->segment = segment;
  block->previous = block->next = block->bin_previous = block->bin_next = nullptr;
  block->allocated = block->deferred = false;
  set_start(block, block);
  return block;
}

void Allocator::State::merge(Block* block, Block* neighbour) {
  remove_free(neighbour);
  set_start(neighbour, nullptr);
  block->size += neighbour->size;
  if (neighbour == block->next) {
    block->next = neighbour->next;
    if (block->next != nullptr) block->next->previous = block;
  } else {
    set_start(block, nullptr);
    block->address = neighbour->address;
    block->previous = neighbour->previous;
    (block->previous != nullptr ? block->previous->next : block->segment->first) = block;
    set_start(block, block);
  }
  spare_blocks_.push_back(neighbour);
}

void Allocator::State::set_start(Block* block, Block* value) {
  if (block->segment->small) {
    (*block->segment->starts)[(block->address - block->segment->address) / kBlockUnit] = value;
  } else {
    large_starts[(block->address - arena.base()) / kSmallRequest] = value;
  }
}

void Allocator::State::insert_free(Block* block) {
  if (block->segment->small) {
    block->segment->pools->small.insert(block);
  } else {
    block->segment->pools->large.insert(block);
  }
}

void Allocator::State::remove_free(Block* block) {
  if (block->segment->small) {
    block->segment->pools->small.remove(block);
  } else {
    block->segment->pools->large.remove(block);
  }
}

std::size_t Allocator::State::limit() const { return static_cast<std::size_t>(memory_fraction * static_cast<double>(arena.capacity())); }

}  // namespace neuron

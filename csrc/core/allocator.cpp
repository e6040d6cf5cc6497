#include "core/allocator.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "core/allocator_state.h"
#include "core/error.h"
#include "core/process_state.h"

namespace neuron {
namespace {

template <typename Visit>
void for_each_stat(AllocatorStats& stats, Visit visit) {
  for (StatArray* array : {&stats.allocation, &stats.segment, &stats.active, &stats.inactive_split, &stats.allocated_bytes,
                           &stats.reserved_bytes, &stats.active_bytes, &stats.inactive_split_bytes, &stats.requested_bytes}) {
    for (Stat& stat : *array) visit(stat);
  }
}

}  // namespace

Allocator::Allocator(Arena& arena, StreamClock& clock, int device) : state_(std::make_unique<State>(arena, clock, device)) {}

Allocator::~Allocator() = default;

void* Allocator::allocate(std::size_t bytes, StreamId stream) {
  refuse_in_forked_child();
  if (bytes == 0) throw InvalidArgument("cannot allocate 0 bytes of device memory; allowed: 1 or more");
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (!state.deferred.empty()) state.sweep_deferred();
  const std::size_t size = bytes <= state.arena.capacity() ? round_request(bytes) : bytes;
  Block* block = state.take_free(size, stream);
  if (block == nullptr) block = state.commit_segment(size, stream, false);
  if (block == nullptr) {
    ++state.stats.num_alloc_retries;
    state.finish_deferred(lock);
    block = state.take_free(size, stream);
    if (block == nullptr) {
      state.release_cached(lock);
      block = state.commit_segment(size, stream, false);
      if (block == nullptr) block = state.commit_segment(size, stream, true);
    }
  }
  if (block == nullptr) {
    ++state.stats.num_ooms;
    throw OutOfMemory(state.out_of_memory_text(bytes));
  }
  return state.hand_out(block, size, bytes);
}

void Allocator::free(void* pointer) {
  // A forked child destroys tensors it inherited; their memory is the parent's.
  if (pointer == nullptr || forked_child.load(std::memory_order_relaxed)) return;
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  Block& block = state.allocated_block("free", pointer);
  const bool small = block.segment->small;
  block.allocated = false;
  decrease(state.stats.allocation, small, 1);
  decrease(state.stats.allocated_bytes, small, static_cast<std::int64_t>(block.size));
  if (!block.used_by.empty() && state.defer(block)) return;
  state.put_back(&block);
}

void Allocator::record_stream(void* pointer, StreamId stream) {
  if (pointer == nullptr) return;
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  Block& block = state_->allocated_block("record_stream", pointer);
  if (stream == block.segment->stream || std::ranges::find(block.used_by, stream) != block.used_by.end()) return;
  block.used_by.push_back(stream);
}

void Allocator::empty_cache() {
  refuse_in_forked_child();
  std::unique_lock lock(state_->mutex);
  state_->finish_deferred(lock);
  state_->release_cached(lock);
}

AllocatorStats Allocator::stats() const {
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void Allocator::reset_accumulated_stats() {
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  for_each_stat(state_->stats, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  state_->stats.num_alloc_retries = state_->stats.num_ooms = state_->stats.num_sync_all_streams = 0;
  state_->stats.num_device_alloc = state_->stats.num_device_free = 0;
}

void Allocator::reset_peak_stats() {
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  for_each_stat(state_->stats, [](Stat& stat) { stat.peak = stat.current; });
}

void Allocator::set_memory_fraction(double fraction) {
  refuse_in_forked_child();
  if (!(fraction > 0.0 && fraction <= 1.0)) {
    throw InvalidArgument("memory fraction " + std::to_string(fraction) + " is not valid; allowed: greater than 0, at most 1");
  }
  std::lock_guard lock(state_->mutex);
  state_->memory_fraction = fraction;
}

std::size_t Allocator::free_bytes() const { return state_->arena.capacity() - state_->arena.committed(); }

std::size_t Allocator::total_bytes() const { return state_->arena.capacity(); }

std::pair<std::uintptr_t, std::size_t> Allocator::block_of(const void* pointer) const {
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  const Block* const block = state_->block_containing(reinterpret_cast<std::uintptr_t>(pointer));
  if (block == nullptr || !block->allocated) return {0, 0};
  return {block->address, block->size};
}

std::vector<SegmentSnapshot> Allocator::snapshot() const {
  refuse_in_forked_child();
  std::lock_guard lock(state_->mutex);
  std::vector<SegmentSnapshot> result;
  result.reserve(state_->segments.size());
  for (const auto& [address, segment] : state_->segments) {
    SegmentSnapshot& entry = result.emplace_back(SegmentSnapshot{address, segment.size, segment.stream, segment.small, {}});
    for (const Block* block = segment.first; block != nullptr; block = block->next) {
      entry.blocks.push_back({block->address, block->size, block->requested, block->allocated, block->allocated || block->deferred});
    }
  }
  return result;
}

}  // namespace neuron

#include "core/allocator.h"

#include <cstdio>

#include "core/allocator_state.h"
#include "core/error.h"
#include "core/fork_guard.h"

namespace neuron {

Allocator::Allocator(Arena& arena, StreamClock& clock, int device) : state_(std::make_unique<State>(arena, clock, device)) {}

Allocator::~Allocator() = default;

void* Allocator::allocate(std::size_t bytes, StreamId stream) {
  if (forked_child.load(std::memory_order_relaxed)) refuse_forked_child();
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
  Block* const block = state.block_at(reinterpret_cast<std::uintptr_t>(pointer));
  if (block == nullptr || !block->allocated) {
    char text[64];
    std::snprintf(text, sizeof text, "%p is not an allocated block of neuron:%d", pointer, state.device);
    throw InvalidArgument(text);
  }
  const bool small = block->segment->small;
  block->allocated = false;
  decrease(state.stats.allocation, small, 1);
  decrease(state.stats.allocated_bytes, small, static_cast<std::int64_t>(block->size));
  if (!block->used_by.empty()) {
    State::Deferred entry{block, {}};
    for (const StreamId user : block->used_by) {
      const std::uint64_t position = state.clock.submitted(user);
      if (state.clock.completed(user) < position) entry.uses.emplace_back(user, position);
    }
    block->used_by.clear();
    if (!entry.uses.empty()) {
      block->deferred = true;
      state.deferred.push_back(std::move(entry));
      return;
    }
  }
  state.put_back(block);
}

void Allocator::record_stream(void* pointer, StreamId stream) {
  if (pointer == nullptr) return;
  State& state = *state_;
  std::lock_guard lock(state.mutex);
  Block* const block = state.block_at(reinterpret_cast<std::uintptr_t>(pointer));
  if (block == nullptr || !block->allocated) {
    char text[80];
    std::snprintf(text, sizeof text, "record_stream: %p is not an allocated block of neuron:%d", pointer, state.device);
    throw InvalidArgument(text);
  }
  if (stream == block->segment->stream || std::ranges::find(block->used_by, stream) != block->used_by.end()) return;
  block->used_by.push_back(stream);
}

// The record of allocations and frees that torch.neuron.memory._record_memory_history switches on.
#pragma once

#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace neuron::torch_face {

enum class MemoryAction : std::uint8_t { kAllocate, kFree, kOutOfMemory };

struct MemoryEvent {
  MemoryAction action;
  int device;
  std::uintptr_t address;
  std::size_t bytes;  // as asked for; of the whole block when one is freed whose allocation was not recorded
  std::int64_t stream;
  std::int64_t microseconds;                     // since the epoch
  std::shared_ptr<c10::GatheredContext> frames;  // a torch::CapturedTraceback; null if stacks are not recorded
};

class MemoryHistory {
 public:
  // Starts over with room for `capacity` events, of which the newest are kept.
  void start(std::size_t capacity, bool with_stacks);
  void stop();
  bool enabled() const noexcept { return enabled_.load(std::memory_order_relaxed); }

  // Does nothing unless enabled. Takes the GIL for the Python frames.
  void record(MemoryAction action, int device, const void* pointer, std::size_t bytes, std::int64_t stream);

  std::vector<MemoryEvent> events() const;
  // Where the live block at the address was allocated; null if that is not known.
  std::shared_ptr<c10::GatheredContext> frames_of(std::uintptr_t address) const;

 private:
  // Relaxed: an event that races with start or stop may or may not be recorded.
  std::atomic<bool> enabled_ = false;
  mutable std::mutex mutex_;
  std::size_t capacity_ = 0;
  std::atomic<bool> with_stacks_ = false;
  std::deque<MemoryEvent> events_;
  std::unordered_map<std::uintptr_t, MemoryEvent> live_;  // the recorded allocations that have not been freed
};

MemoryHistory& memory_history();

}  // namespace neuron::torch_face

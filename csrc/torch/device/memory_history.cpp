#include "torch/device/memory_history.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <chrono>

namespace neuron::torch_face {

namespace {

std::int64_t now_microseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(now).count();
}

}  // namespace

void MemoryHistory::start(std::size_t capacity, bool with_stacks) {
  std::deque<MemoryEvent> old_events;
  decltype(live_) old_live;
  {
    const std::lock_guard lock(mutex_);
    capacity_ = capacity;
    with_stacks_.store(with_stacks, std::memory_order_relaxed);
    old_events.swap(events_);
    old_live.swap(live_);
  }
  enabled_.store(true, std::memory_order_relaxed);
}

void MemoryHistory::stop() { enabled_.store(false, std::memory_order_relaxed); }

void MemoryHistory::record(MemoryAction action, int device, const void* pointer, std::size_t bytes, std::int64_t stream) {
  if (!enabled()) return;
  // Outside the lock: gathering waits for the GIL, whose holder may be waiting for the lock.
  std::shared_ptr<c10::GatheredContext> frames;
  if (with_stacks_.load(std::memory_order_relaxed))
    frames = torch::CapturedTraceback::gather(/*python=*/true, /*script=*/false, /*cpp=*/false);
  MemoryEvent event{action, device, reinterpret_cast<std::uintptr_t>(pointer), bytes, stream, now_microseconds(), std::move(frames)};
  // Destroyed after the lock is released, as dropping frames may take the GIL.
  MemoryEvent freed{}, dropped{};
  const std::lock_guard lock(mutex_);
  if (action == MemoryAction::kAllocate) live_[event.address] = event;
  if (action == MemoryAction::kFree) {
    if (auto block = live_.extract(event.address)) {
      freed = std::move(block.mapped());
      event.bytes = freed.bytes;
      event.stream = freed.stream;
    }
  }
  events_.push_back(std::move(event));
  if (events_.size() > capacity_) {
    dropped = std::move(events_.front());
    events_.pop_front();
  }
}

std::vector<MemoryEvent> MemoryHistory::events() const {
  const std::lock_guard lock(mutex_);
  return {events_.begin(), events_.end()};
}

std::shared_ptr<c10::GatheredContext> MemoryHistory::frames_of(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto block = live_.find(address);
  return block == live_.end() ? nullptr : block->second.frames;
}

MemoryHistory& memory_history() {
  // Leaked: blocks are freed during static destruction too.
  static auto& history = *std::make_unique<MemoryHistory>().release();
  return history;
}

}  // namespace neuron::torch_face

// Two facts about the process that close the runtime.
#pragma once

#include <atomic>

namespace neuron {

// This process was forked from one that had a core: it has none of the executor threads, and any lock may be held for ever.
// Relaxed everywhere: written while the child has a single thread.
inline std::atomic<bool> forked_child = false;

// shutdown() was called. Relaxed: a launch that races with it is either run or refused by its queue.
inline std::atomic<bool> runtime_stopped = false;

[[noreturn]] void throw_forked_child();
[[noreturn]] void throw_stopped();

// Throws InvalidArgument, naming the spawn start method.
inline void refuse_in_forked_child() {
  if (forked_child.load(std::memory_order_relaxed)) [[unlikely]]
    throw_forked_child();
}

inline void refuse_when_stopped() {
  if (runtime_stopped.load(std::memory_order_relaxed)) [[unlikely]]
    throw_stopped();
}

}  // namespace neuron

// Whether this process was forked from one that had a core. Such a child has none of the executor threads, and any lock may be held for ever.
#pragma once

#include <atomic>

namespace neuron {

// Relaxed everywhere: it is written while the child has a single thread.
inline std::atomic<bool> forked_child = false;

}  // namespace neuron

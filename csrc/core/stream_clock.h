// What the allocator may ask about a core's streams: how far each one is.
#pragma once

#include <cstdint>

#include "core/allocator.h"

namespace neuron {

// Positions count a stream's queued commands. Every method may be called from any thread.
class StreamClock {
 public:
  virtual std::uint64_t submitted(StreamId stream) const = 0;  // position of the last command queued
  virtual std::uint64_t completed(StreamId stream) const = 0;  // all commands up to this position have completed
  virtual void wait(StreamId stream, std::uint64_t position) = 0;

 protected:
  ~StreamClock() = default;
};

}  // namespace neuron

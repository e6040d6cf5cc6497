// What a stream is made of.
#pragma once

#include "core/allocator.h"
#include "core/command.h"
#include "core/executor.h"
#include "core/stream.h"

namespace neuron {

struct Stream::State {
  State(Core& core, Executor& executor, Allocator& allocator, bool blocking, StreamId id, int priority)
      : core(core), executor(executor), allocator(allocator), blocking(blocking), queue(executor, id, priority) {}

  Core& core;
  Executor& executor;
  Allocator& allocator;
  const bool blocking;  // every command completes before it returns to the caller
  Queue queue;
};

}  // namespace neuron

// An in-order queue of commands of one core.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/allocator.h"
#include "core/executable.h"

namespace neuron {

class Core;
struct Queue;

struct MemoryRange {
  const void* data;
  std::size_t bytes;
};

// Where a command comes from, for errors and traces.
struct Origin {
  std::string python_line;  // "train.py:12 in step"; empty unless TORCH_NEURONX_ENABLE_STACK_TRACE=1
};

// A command that is not a compiled program: a copy, a CPU fallback's part, a test's probe.
struct HostTask {
  std::string name;
  std::vector<MemoryRange> reads, writes;
  std::function<void()> run;  // on the executor thread (or inline); may throw
  std::uint64_t work = 0;     // estimated nanoseconds; small work on an idle core runs inline
  int threads = 0;            // as for Stream::launch
};

class Stream {
 public:
  StreamId id() const;
  Core& core() const;
  int priority() const;

  // Enqueues one launch. buffers: inputs, then outputs. Allocates and frees the scratch block in stream order.
  // threads: intra-op threads the submitting thread has set (0: leave as it is).
  void launch(const std::shared_ptr<const Executable>& executable, std::span<void* const> buffers, std::span<const std::uint64_t> scalars,
              const Origin* origin = nullptr, int threads = 0);
  void submit(HostTask task);
  // Keeps the queue's next command back for `nanoseconds` from when it is reached.
  void sleep(std::int64_t nanoseconds);
  // True if everything queued has completed. Never blocks, never throws.
  bool query() const;
  // Waits until everything queued so far has completed, helping to run it if the core is idle. Throws the first CommandError since the
  // last synchronisation.
  void synchronize();

 private:
  friend class Core;
  friend class Event;
  friend Queue& queue_of(Stream& stream);
  struct State;
  explicit Stream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace neuron

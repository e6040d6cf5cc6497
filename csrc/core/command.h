// A queued command of a stream, and the queue itself. The owner of a queue's lock is the core's executor.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/executable.h"
#include "core/stream.h"

namespace neuron {

class Executor;
struct Queue;

// Where an event was recorded: reached once `queue` has completed `position`.
struct Mark {
  Queue* queue;
  std::uint64_t position;
  std::atomic<std::int64_t> nanoseconds = 0;  // steady clock at the mark, for timing events; valid once reached
};

struct Launch {
  std::shared_ptr<const Executable> executable;
  std::vector<void*> buffers;
  std::vector<std::uint64_t> scalars;
  void* scratch = nullptr;
  std::string python_line;
  int threads = 0;
};

// Writes the time into a mark.
struct Stamp {
  std::shared_ptr<Mark> mark;
};

// Holds the queue back until another queue has completed a position.
struct Wait {
  Queue* queue;
  std::uint64_t position;
};

// Holds the queue back for a time that begins when the command becomes the head.
struct Sleep {
  std::int64_t nanoseconds;
  std::optional<std::int64_t> deadline;  // steady clock; set when it becomes the head
};

struct Command {
  std::variant<Launch, HostTask, Stamp, Wait, Sleep> action;
  Command* next = nullptr;
};

// What a later stage may know of a command that waits in a queue.
struct PendingCommand {
  std::string name;
  std::vector<MemoryRange> reads, writes;
};

// The commands of one stream. Everything but the atomics and the watchers is guarded by the executor's queue lock.
struct Queue {
  Queue(Executor& executor, StreamId id, int priority) : executor(executor), id(id), priority(priority) {}

  Executor& executor;
  const StreamId id;
  const int priority;
  Command* head = nullptr;  // stays the head while it runs
  Command* tail = nullptr;
  bool running = false;
  std::optional<std::string> error;  // of the first command that failed since the last synchronisation

  // Positions count queued commands. A command that ran inline has none: it was complete before anyone could know of it.
  std::atomic<std::uint64_t> submitted = 0;
  std::atomic<std::uint64_t> completed = 0;

  // Executors with a queue that waits for this one. Lock order: an executor's queue lock may be held when this one is taken.
  std::mutex watch_mutex;
  std::vector<Executor*> watchers;
  std::atomic<bool> watched = false;

  bool idle() const noexcept { return completed.load(std::memory_order_acquire) == submitted.load(std::memory_order_relaxed); }
  bool has_completed(std::uint64_t position) const noexcept { return completed.load(std::memory_order_acquire) >= position; }
};

// The queue behind a stream, for what looks ahead in it.
Queue& queue_of(Stream& stream);

std::int64_t steady_nanoseconds() noexcept;

}  // namespace neuron

#include "core/core.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <vector>

#include "core/arena.h"
#include "core/error.h"
#include "core/process_state.h"
#include "core/stream_clock.h"
#include "core/stream_state.h"

namespace neuron {
namespace {

constexpr int kStreamsPerPriority = 32;
constexpr int kHighPriority = -1;
constexpr int kMaxCores = 128;

// All cores ever started. Leaked with everything they own: threads may still run while statics are destroyed.
std::array<std::atomic<Core*>, kMaxCores> cores{};
std::mutex start_mutex;

void mark_forked_child() {
  for (const auto& core : cores) {
    if (core.load(std::memory_order_relaxed) != nullptr) forked_child.store(true, std::memory_order_relaxed);
  }
}

// Errors that no synchronisation will raise any more.
void report_errors(Executor& executor, int index) {
  for (;;) {
    try {
      executor.throw_first_error();
      return;
    } catch (const CommandError& error) {
      std::fprintf(stderr, "neuron:%d: an error was never raised, as nothing synchronized after it: %s\n", index, error.what());
    }
  }
}

}  // namespace

void throw_forked_child() {
  throw InvalidArgument(
      "cannot use neuron in a process forked from one that already used it; start processes with the 'spawn' start method "
      "(multiprocessing.set_start_method('spawn'))");
}

void throw_stopped() { throw InvalidArgument("the neuron runtime was shut down; nothing can be launched any more"); }

struct Core::State : StreamClock {
  State(Core& core, int index, const Config& config)
      : index(index),
        arena(static_cast<std::size_t>(config.capacity), config.protect_memory),
        allocator(arena, *this, index),
        executor(index) {
    const auto add = [&](StreamId id, int priority) {
      streams.emplace_back(new Stream(std::make_unique<Stream::State>(core, executor, allocator, config.launch_blocking, id, priority)));
    };
    for (StreamId id = 0; id <= kStreamsPerPriority; ++id) add(id, 0);
    for (StreamId id = 1; id <= kStreamsPerPriority; ++id) add(kStreamsPerPriority + id, kHighPriority);
  }

  Queue& queue(StreamId stream) const { return streams[static_cast<std::size_t>(stream)]->state_->queue; }
  std::uint64_t submitted(StreamId stream) const override { return queue(stream).submitted.load(std::memory_order_acquire); }
  std::uint64_t completed(StreamId stream) const override { return queue(stream).completed.load(std::memory_order_acquire); }
  void wait(StreamId stream, std::uint64_t position) override { executor.wait(queue(stream), position); }

  const int index;
  Arena arena;
  Allocator allocator;
  Executor executor;
  std::vector<std::unique_ptr<Stream>> streams;  // by id: the default stream, then the pools of normal and of high priority
  std::atomic<std::uint32_t> handed_out_normal = 0, handed_out_high = 0;
};

Core::Core(int index, const Config& config) : state_(std::make_unique<State>(*this, index, config)) {}

Core::~Core() = default;

int Core::index() const { return state_->index; }

Allocator& Core::allocator() { return state_->allocator; }

Stream& Core::default_stream() { return *state_->streams.front(); }

Stream& Core::stream(StreamId id) {
  const bool normal = id <= kStreamsPerPriority;
  const StreamId number = normal ? id : id - kStreamsPerPriority;
  const std::uint32_t handed_out = (normal ? state_->handed_out_normal : state_->handed_out_high).load(std::memory_order_relaxed);
  if (id < 0 || id > 2 * kStreamsPerPriority || number > static_cast<StreamId>(handed_out)) {
    throw InvalidArgument("stream id " + std::to_string(id) + " of neuron:" + std::to_string(state_->index) +
                          " was never handed out; allowed: 0 and the ids of streams from the pool");
  }
  return *state_->streams[static_cast<std::size_t>(id)];
}

Stream& Core::stream_from_pool(int priority) {
  if (priority != 0 && priority != kHighPriority) {
    throw InvalidArgument("stream priority " + std::to_string(priority) + " is not valid; allowed: 0 (normal) and -1 (high)");
  }
  auto& handed_out = priority == 0 ? state_->handed_out_normal : state_->handed_out_high;
  const std::uint32_t turn = handed_out.fetch_add(1, std::memory_order_relaxed) % kStreamsPerPriority;
  return *state_->streams[1 + turn + (priority == 0 ? 0 : kStreamsPerPriority)];
}

void Core::synchronize() {
  refuse_in_forked_child();
  for (const auto& stream : state_->streams) {
    Queue& queue = stream->state_->queue;
    state_->executor.wait(queue, queue.submitted.load(std::memory_order_acquire));
  }
  state_->executor.throw_first_error();
}

bool Core::contains(const void* pointer) const { return state_->arena.contains(pointer); }

const Config& config() {
  static const Config* const instance = new Config(Config::from_environment());
  return *instance;
}

int core_count() {
  try {
    return config().core_count;
  } catch (const InvalidArgument&) {
    return 0;  // the first use of a core reports it
  }
}

Core& core(int index) {
  refuse_in_forked_child();
  const int count = config().core_count;
  if (index < 0 || index >= count) {
    throw InvalidArgument("device index " + std::to_string(index) + " is out of range; allowed: 0 to " + std::to_string(count - 1));
  }
  if (Core* const started = cores[index].load(std::memory_order_acquire)) return *started;
  refuse_when_stopped();
  std::lock_guard lock(start_mutex);
  static const int fork_handler = pthread_atfork(nullptr, nullptr, mark_forked_child);
  if (fork_handler != 0) throw InvalidArgument("the host refused a fork handler");
  if (cores[index].load(std::memory_order_relaxed) == nullptr) cores[index].store(new Core(index, config()), std::memory_order_release);
  return *cores[index].load(std::memory_order_relaxed);
}

bool core_started(int index) noexcept { return index >= 0 && index < kMaxCores && cores[index].load(std::memory_order_acquire) != nullptr; }

int core_of(const void* pointer) {
  for (int index = 0; index < kMaxCores; ++index) {
    const Core* const candidate = cores[index].load(std::memory_order_acquire);
    if (candidate != nullptr && candidate->contains(pointer)) return index;
  }
  return -1;
}

bool in_forked_child() noexcept { return forked_child.load(std::memory_order_relaxed); }

void shutdown() {
  if (in_forked_child()) return;
  std::lock_guard lock(start_mutex);
  runtime_stopped.store(true, std::memory_order_relaxed);
  std::vector<Core*> started;
  for (const auto& core : cores) {
    if (Core* const candidate = core.load(std::memory_order_relaxed)) started.push_back(candidate);
  }
  // Queues of different cores wait for each other, so none stops before all are closed.
  for (Core* core : started) core->state_->executor.close();
  for (Core* core : started) core->state_->executor.stop();
  for (Core* core : started) report_errors(core->state_->executor, core->index());
}

}  // namespace neuron

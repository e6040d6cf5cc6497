#include "core/stream.h"

#include <utility>

#include "core/arena.h"
#include "core/error.h"
#include "core/process_state.h"
#include "core/stream_state.h"

namespace neuron {
namespace {

// A launch's temporaries. Freed as soon as the launch is queued: the allocator reuses memory in the order of the stream.
class Scratch {
 public:
  Scratch(Allocator& allocator, std::uint64_t bytes, StreamId stream)
      : allocator_(allocator), memory_(bytes == 0 ? nullptr : allocator.allocate(bytes, stream)) {}
  ~Scratch() {
    if (memory_ != nullptr) allocator_.free(memory_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* get() const { return memory_; }

 private:
  Allocator& allocator_;
  void* const memory_;
};

// A core claimed by begin_inline.
class Inline {
 public:
  explicit Inline(Executor& executor) : executor_(executor) {}
  ~Inline() { executor_.end_inline(); }
  Inline(const Inline&) = delete;
  Inline& operator=(const Inline&) = delete;

 private:
  Executor& executor_;
  const MemoryAccess access_;
};

[[noreturn]] void refuse_counts(const Executable& executable, std::size_t buffers, std::size_t scalars) {
  throw InvalidArgument(executable.name() + " was launched with " + std::to_string(buffers) + " buffers and " + std::to_string(scalars) +
                        " scalars; it takes " + std::to_string(executable.input_bytes().size()) + " inputs, " +
                        std::to_string(executable.output_bytes().size()) + " outputs and " + std::to_string(executable.scalar_count()) +
                        " scalars");
}

}  // namespace

Queue& queue_of(Stream& stream) { return stream.state_->queue; }

Stream::Stream(std::unique_ptr<State> state) : state_(std::move(state)) {}

StreamId Stream::id() const { return state_->queue.id; }

Core& Stream::core() const { return state_->core; }

int Stream::priority() const { return state_->queue.priority; }

void Stream::launch(const std::shared_ptr<const Executable>& executable, std::span<void* const> buffers,
                    std::span<const std::uint64_t> scalars, const Origin* origin, int threads) {
  refuse_in_forked_child();
  refuse_when_stopped();
  State& state = *state_;
  const Executable& program = *executable;
  if (buffers.size() != program.input_bytes().size() + program.output_bytes().size() || scalars.size() != program.scalar_count()) {
    refuse_counts(program, buffers.size(), scalars.size());
  }
  const Scratch scratch(state.allocator, program.scratch_bytes(), state.queue.id);
  if (program.work() <= kInlineNanoseconds && !program.parallel() && state.executor.begin_inline(state.queue)) {
    std::optional<std::string> failure;
    {
      const Inline claim(state.executor);
      failure = failure_of([&] { program.run(buffers, scratch.get(), scalars); });
    }
    if (failure) {
      const std::string python_line = origin == nullptr ? "" : origin->python_line;
      state.executor.keep_error(state.queue, failure_text(program.name(), program.signature(), python_line, *failure));
    }
  } else {
    state.executor.enqueue(state.queue, [&](Command& command) {
      if (!std::holds_alternative<Launch>(command.action)) command.action.emplace<Launch>();
      Launch& launch = std::get<Launch>(command.action);
      launch.executable = executable;
      launch.buffers.assign(buffers.begin(), buffers.end());
      launch.scalars.assign(scalars.begin(), scalars.end());
      launch.scratch = scratch.get();
      launch.threads = threads;
      launch.python_line.clear();
      if (origin != nullptr) launch.python_line = origin->python_line;
    });
  }
  if (state.blocking) synchronize();
}

void Stream::submit(HostTask task) {
  refuse_in_forked_child();
  refuse_when_stopped();
  State& state = *state_;
  if (task.work <= kInlineNanoseconds && state.executor.begin_inline(state.queue)) {
    std::optional<std::string> failure;
    {
      const Inline claim(state.executor);
      failure = failure_of(task.run);
    }
    if (failure) state.executor.keep_error(state.queue, failure_text(task.name, "", "", *failure));
  } else {
    state.executor.enqueue(state.queue, [&](Command& command) { command.action.emplace<HostTask>(std::move(task)); });
  }
  if (state.blocking) synchronize();
}

void Stream::sleep(std::int64_t nanoseconds) {
  refuse_in_forked_child();
  refuse_when_stopped();
  if (nanoseconds < 0) throw InvalidArgument("sleep of " + std::to_string(nanoseconds) + " ns; allowed: 0 or more");
  state_->executor.enqueue(state_->queue, [&](Command& command) { command.action.emplace<Sleep>(nanoseconds, std::nullopt); });
}

bool Stream::query() const { return state_->queue.idle(); }

void Stream::synchronize() {
  refuse_in_forked_child();
  State& state = *state_;
  state.executor.wait(state.queue, state.queue.submitted.load(std::memory_order_acquire));
  state.executor.throw_error(state.queue);
}

}  // namespace neuron

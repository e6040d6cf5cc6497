#include "core/event.h"

#include <mutex>

#include "core/error.h"
#include "core/process_state.h"
#include "core/stream_state.h"

namespace neuron {

struct Event::State {
  explicit State(bool timing) : timing(timing) {}

  std::shared_ptr<Mark> current() const {
    std::lock_guard lock(mutex);
    return mark;
  }

  const bool timing;
  mutable std::mutex mutex;
  std::shared_ptr<Mark> mark;  // null: never recorded
};

namespace {

bool reached(const Mark& mark) { return mark.queue->has_completed(mark.position); }

}  // namespace

Event::Event(bool timing) : state_(std::make_shared<State>(timing)) {}

Event::~Event() = default;

void Event::record(Stream& stream) {
  refuse_in_forked_child();
  Queue& queue = stream.state_->queue;
  auto mark = std::make_shared<Mark>();
  mark->queue = &queue;
  if (!state_->timing) {
    mark->position = queue.submitted.load(std::memory_order_acquire);
  } else if (queue.idle()) {
    mark->position = queue.completed.load(std::memory_order_acquire);
    mark->nanoseconds.store(steady_nanoseconds(), std::memory_order_relaxed);
  } else {
    mark->position = queue.executor.enqueue(queue, [&](Command& command) { command.action.emplace<Stamp>(mark); });
  }
  std::lock_guard lock(state_->mutex);
  state_->mark = std::move(mark);
}

void Event::block(Stream& stream) const {
  refuse_in_forked_child();
  const auto mark = state_->current();
  Queue& queue = stream.state_->queue;
  if (mark == nullptr || mark->queue == &queue || reached(*mark)) return;
  queue.executor.enqueue(queue, [&](Command& command) { command.action.emplace<Wait>(mark->queue, mark->position); });
}

bool Event::query() const {
  const auto mark = state_->current();
  return mark == nullptr || reached(*mark);
}

void Event::synchronize() const {
  refuse_in_forked_child();
  const auto mark = state_->current();
  if (mark != nullptr) mark->queue->executor.wait(*mark->queue, mark->position);
}

bool Event::timing() const { return state_->timing; }

double Event::elapsed_ms(const Event& end) const {
  for (const Event* event : {this, &end}) {
    const char* const which = event == this ? "start" : "end";
    if (!event->timing()) {
      throw InvalidArgument(std::string("elapsed time: the ") + which + " event was created without timing; create both with timing");
    }
    const auto mark = event->state_->current();
    if (mark == nullptr) throw InvalidArgument(std::string("elapsed time: the ") + which + " event was never recorded");
    if (!reached(*mark)) {
      throw InvalidArgument(std::string("elapsed time: the ") + which + " event has not been reached yet; synchronize it first");
    }
  }
  const std::int64_t nanoseconds =
      end.state_->current()->nanoseconds.load(std::memory_order_relaxed) - state_->current()->nanoseconds.load(std::memory_order_relaxed);
  return static_cast<double>(nanoseconds) / 1e6;
}

}  // namespace neuron

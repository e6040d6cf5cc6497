#include "core/executor.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "core/arena.h"
#include "core/core.h"
#include "core/error.h"
#include "core/process_state.h"

namespace neuron {
namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<void (*)(int)> thread_count_setter = nullptr;

template <typename... Cases>
struct Match : Cases... {
  using Cases::operator()...;
};

// SIGINT and its like are for the threads of the program.
void block_signals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int synchronous : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, synchronous);
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
}

// Makes the executor look again when `queue` completes something. The completing side stores `completed` and then reads `watched`, this
// side stores `watched` and then reads `completed`, all sequentially consistent, so one of them sees the other.
bool watch(Queue& queue, Executor* executor, std::uint64_t position) {
  std::lock_guard lock(queue.watch_mutex);
  if (std::ranges::find(queue.watchers, executor) == queue.watchers.end()) queue.watchers.push_back(executor);
  queue.watched.store(true);
  return queue.completed.load() >= position;
}

void notify_watchers(Queue& queue) {
  std::vector<Executor*> watchers;
  {
    std::lock_guard lock(queue.watch_mutex);
    watchers.swap(queue.watchers);
    queue.watched.store(false);
  }
  for (Executor* watcher : watchers) watcher->wake();
}

// May a waiting thread run it? Commands that use several threads belong to the core's thread, whose team is warm.
bool is_serial(const Command& command) {
  return std::visit(Match{[](const Launch& launch) { return !launch.executable->parallel(); },
                          [](const HostTask& task) { return task.work <= kInlineNanoseconds; }, [](const auto&) { return true; }},
                    command.action);
}

}  // namespace

thread_local constinit const Executor* Executor::running_here_ = nullptr;

std::int64_t steady_nanoseconds() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void set_thread_count_setter(void (*setter)(int threads)) { thread_count_setter.store(setter); }

std::string failure_text(const std::string& name, const std::string& signature, const std::string& python_line, const std::string& what) {
  std::string text = name + " failed: " + what;
  if (!signature.empty()) text += "\n  in " + signature;
  if (!python_line.empty()) text += "\n  queued at " + python_line;
  return text;
}

void Executor::wait(Queue& queue, std::uint64_t position) {
  if (queue.has_completed(position)) return;
  if (running_here_ == this) {
    throw InvalidArgument("a command of neuron:" + std::to_string(core_) + " cannot wait for the commands behind it");
  }
  std::unique_lock lock(mutex_);
  ++waiters_;
  while (!queue.has_completed(position)) {
    std::int64_t deadline = kNever;
    if (!queue.running && is_serial(*queue.head) && ready(queue, deadline) && running_.try_lock()) {
      run_head(queue, lock);
      running_.unlock();
    } else {
      done_.wait(lock);
    }
  }
  --waiters_;
}

void Executor::keep_error(Queue& queue, std::string text) {
  std::lock_guard lock(mutex_);
  if (queue.error) return;
  queue.error = std::move(text);
  failed_.push_back(&queue);
}

void Executor::throw_error(Queue& queue) {
  std::unique_lock lock(mutex_);
  if (!queue.error) return;
  const CommandError error(*queue.error);
  queue.error.reset();
  std::erase(failed_, &queue);
  lock.unlock();
  throw error;
}

void Executor::throw_first_error() {
  std::unique_lock lock(mutex_);
  if (failed_.empty()) return;
  Queue& queue = *failed_.front();
  lock.unlock();
  throw_error(queue);
}

void Executor::wake() {
  std::lock_guard lock(mutex_);
  parked_ = false;
  work_.notify_one();
  if (waiters_ > 0) done_.notify_all();
}

void Executor::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void Executor::stop() {
  {
    std::lock_guard lock(mutex_);
    closed_ = stopping_ = true;
    work_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

Command& Executor::spare_command() {
  if (closed_) throw_stopped();
  if (spare_ == nullptr) spare_ = commands_.emplace_back(std::make_unique<Command>()).get();
  return *spare_;
}

std::uint64_t Executor::append(Queue& queue, std::unique_lock<std::mutex>& lock) {
  if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  Command* const command = std::exchange(spare_, spare_->next);
  command->next = nullptr;
  if (queue.head == nullptr) {
    const auto behind = std::ranges::find_if(active_, [&queue](const Queue* other) { return other->priority > queue.priority; });
    active_.insert(behind, &queue);
    queue.head = command;
  } else {
    queue.tail->next = command;
  }
  queue.tail = command;
  const std::uint64_t position = queue.submitted.load(std::memory_order_relaxed) + 1;
  queue.submitted.store(position, std::memory_order_release);
  const bool notify = std::exchange(parked_, false);
  lock.unlock();
  if (notify) work_.notify_one();
  return position;
}

void Executor::loop() {
  block_signals();
  pthread_setname_np(pthread_self(), ("neuron:" + std::to_string(core_)).c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    std::int64_t deadline = kNever;
    if (next_ready(deadline) != nullptr) {
      lock.unlock();
      std::lock_guard running(running_);
      lock.lock();
      while (Queue* const queue = next_ready(deadline)) run_head(*queue, lock);
    } else if (stopping_ && active_.empty()) {
      return;
    } else {
      parked_ = true;
      if (deadline == kNever) {
        work_.wait(lock);
      } else {
        work_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(deadline)));
      }
      parked_ = false;
    }
  }
}

// Lowers deadline to the time at which the head becomes ready, if only time is missing. A head that another thread is running counts as
// ready: the core's thread then waits for its turn and looks again, so that it never parks over a command that was behind that one.
bool Executor::ready(Queue& queue, std::int64_t& deadline) {
  if (const auto* wait = std::get_if<Wait>(&queue.head->action)) {
    return wait->queue->has_completed(wait->position) || watch(*wait->queue, this, wait->position);
  }
  if (auto* sleep = std::get_if<Sleep>(&queue.head->action)) {
    const std::int64_t now = steady_nanoseconds();
    if (!sleep->deadline) sleep->deadline = now + sleep->nanoseconds;
    if (now < *sleep->deadline) {
      deadline = std::min(deadline, *sleep->deadline);
      return false;
    }
  }
  return true;
}

Queue* Executor::next_ready(std::int64_t& deadline) {
  for (Queue* queue : active_) {
    if (ready(*queue, deadline)) return queue;
  }
  return nullptr;
}

void Executor::run_head(Queue& queue, std::unique_lock<std::mutex>& lock) {
  Command* const command = queue.head;
  queue.running = true;
  lock.unlock();
  run(*command, queue);
  lock.lock();
  queue.running = false;
  queue.head = command->next;
  command->next = std::exchange(spare_, command);
  const auto place = std::ranges::find(active_, &queue);
  if (queue.head == nullptr) {
    queue.tail = nullptr;
    active_.erase(place);
  } else {
    const auto behind = std::find_if(place, active_.end(), [&queue](const Queue* other) { return other->priority > queue.priority; });
    std::rotate(place, place + 1, behind);
  }
  queue.completed.store(queue.completed.load(std::memory_order_relaxed) + 1);
  if (waiters_ > 0) done_.notify_all();
  if (queue.watched.load()) {
    lock.unlock();
    notify_watchers(queue);
    lock.lock();
  }
}

// Also destroys what the command holds, so that memory is free when its completion is seen.
void Executor::run(Command& command, Queue& queue) noexcept {
  running_here_ = this;
  const MemoryAccess access;
  std::visit(Match{[&](Launch& launch) {
                     set_threads(launch.threads);
                     const Executable& executable = *launch.executable;
                     if (const auto failure = failure_of([&] { executable.run(launch.buffers, launch.scratch, launch.scalars); })) {
                       keep_error(queue, failure_text(executable.name(), executable.signature(), launch.python_line, *failure));
                     }
                     launch.executable.reset();
                   },
                   [&](HostTask& task) {
                     set_threads(task.threads);
                     if (const auto failure = failure_of(task.run)) keep_error(queue, failure_text(task.name, "", "", *failure));
                     task = HostTask();
                   },
                   [](Stamp& stamp) {
                     stamp.mark->nanoseconds.store(steady_nanoseconds(), std::memory_order_relaxed);
                     stamp.mark.reset();
                   },
                   [](auto&) {}},
             command.action);
  running_here_ = nullptr;
}

// The setting belongs to the core's thread; a waiting thread that runs a command keeps its own.
void Executor::set_threads(int threads) {
  if (threads == 0 || threads == threads_ || std::this_thread::get_id() != thread_.get_id()) return;
  threads_ = threads;
  if (auto* const setter = thread_count_setter.load()) setter(threads);
}

std::vector<PendingCommand> Executor::pending(const Queue& queue) {
  std::lock_guard lock(mutex_);
  std::vector<PendingCommand> result;
  for (const Command* command = queue.running ? queue.head->next : queue.head; command != nullptr; command = command->next) {
    if (const auto* launch = std::get_if<Launch>(&command->action)) {
      const Executable& executable = *launch->executable;
      PendingCommand& entry = result.emplace_back(PendingCommand{executable.name(), {}, {}});
      const std::size_t inputs = executable.input_bytes().size();
      for (std::size_t i = 0; i < inputs; ++i) entry.reads.push_back({launch->buffers[i], executable.input_bytes()[i]});
      for (std::size_t i = 0; i < executable.output_bytes().size(); ++i) {
        entry.writes.push_back({launch->buffers[inputs + i], executable.output_bytes()[i]});
      }
    } else if (const auto* task = std::get_if<HostTask>(&command->action)) {
      result.push_back({task->name, task->reads, task->writes});
    }
  }
  return result;
}

}  // namespace neuron

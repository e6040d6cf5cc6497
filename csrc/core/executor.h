// Runs the queues of one core: one command at a time, on the core's thread, on a submitting thread or on a waiting one.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/command.h"

namespace neuron {

// Serial commands up to this estimate run on the submitting thread when the core is idle. Measured (benchmarks/runtime_handoff.cpp, two
// processors): an inline launch costs 15 ns beyond its kernel; waking the parked thread costs the submitting one 5 to 7 us when the other
// processor idles. So up to 5 us inline is never slower, and with 10 us of work a host that has 3 us or more of its own to do per command
// gains. The thread parks without spinning: 20 us of spinning won 1 us per command in a stream of 10 us gaps, and doubled the processor
// time of such a stream, at the cost of the intra-op team.
inline constexpr std::uint64_t kInlineNanoseconds = 5'000;

class Executor {
 public:
  explicit Executor(int core) : core_(core) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // True if the core is idle and the queue empty: the caller runs one command of the queue now, then calls end_inline.
  bool begin_inline(const Queue& queue) noexcept {
    if (!queue.idle() || running_here_ == this || !running_.try_lock()) return false;
    running_here_ = this;
    return true;
  }
  void end_inline() noexcept {
    running_here_ = nullptr;
    running_.unlock();
  }

  // Appends a command that fill(Command&) writes; it may find the vectors of an earlier launch to reuse. Returns its position.
  // Throws InvalidArgument once closed.
  template <typename Fill>
  std::uint64_t enqueue(Queue& queue, Fill fill) {
    std::unique_lock lock(mutex_);
    fill(spare_command());
    return append(queue, lock);
  }

  // Returns when the position has completed; runs serial commands of the queue itself while the core is idle.
  // Throws InvalidArgument inside a command of this core.
  void wait(Queue& queue, std::uint64_t position);

  void keep_error(Queue& queue, std::string text);  // if it is the queue's first
  void throw_error(Queue& queue);                   // if there is one, and forget it
  void throw_first_error();                         // of any queue
  void wake();                                      // the head of a queue may have become ready
  void stop();                                      // refuses later commands, runs everything queued and ends the thread
  void close();                                     // refuses later commands
  std::vector<PendingCommand> pending(const Queue& queue);

 private:
  Command& spare_command();
  std::uint64_t append(Queue& queue, std::unique_lock<std::mutex>& lock);
  void loop();
  bool ready(Queue& queue, std::int64_t& deadline);
  Queue* next_ready(std::int64_t& deadline);
  void run_head(Queue& queue, std::unique_lock<std::mutex>& lock);
  void run(Command& command, Queue& queue) noexcept;
  void set_threads(int threads);

  // The executor whose command this thread runs now. Initial-exec: the launch path reads it, and the extension needs only these 8 bytes.
  [[gnu::tls_model("initial-exec")]] static thread_local constinit const Executor* running_here_;

  const int core_;
  std::mutex running_;  // held by whoever runs a command. Lock order: before mutex_, or by try_lock
  std::mutex mutex_;    // guards what follows and the queues
  std::condition_variable work_, done_;
  std::vector<Queue*> active_;  // queues with commands: by priority, then in turn
  std::vector<std::unique_ptr<Command>> commands_;
  Command* spare_ = nullptr;
  int waiters_ = 0;
  bool parked_ = false, closed_ = false, stopping_ = false;
  std::vector<Queue*> failed_;  // queues with an error, the earliest first
  int threads_ = 0;             // last setting given to the thread count setter; only the core's thread uses it
  std::thread thread_;
};

// The text of what `run` throws, if it throws.
template <typename Run>
std::optional<std::string> failure_of(const Run& run) noexcept {
  try {
    run();
    return std::nullopt;
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "unknown exception";
  }
}

// What a failed command's error says.
std::string failure_text(const std::string& name, const std::string& signature, const std::string& python_line, const std::string& what);

}  // namespace neuron

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "check.h"
#include "core/core.h"
#include "core/error.h"
#include "core/event.h"
#include "gate.h"
#include "image_writer.h"
#include "random_program.h"

using neuron::InvalidArgument;
using neuron::Stream;

static bool is_forked_child = false;

// LeakSanitizer stops all threads at exit and waits for them; in a forked child most of them do not exist, and it may wait forever.
extern "C" int __lsan_is_turned_off() { return is_forked_child; }

namespace {

// How a forked child that runs this ended, as waitpid tells.
template <typename Run>
int status_of_child(Run run) {
  const pid_t child = fork();
  if (child == 0) {
    is_forked_child = true;
    alarm(30);  // a hang becomes a signal
    run();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

template <typename Run>
void expect_refused(Run run) {
  try {
    run();
  } catch (const InvalidArgument& error) {
    if (check::contains(error.what(), "'spawn'")) return;
  }
  std::_Exit(7);
}

}  // namespace

TEST(process_forked_before_first_use_may_use_the_device) {
  const int status = status_of_child([] {
    bool ran = false;
    neuron::core(0).default_stream().submit(queued_task("task", [&ran] { ran = true; }));
    neuron::core(0).synchronize();
    neuron::shutdown();
    if (!ran || neuron::in_forked_child()) std::_Exit(8);
  });
  CHECK_EQUAL(status, 0);
}

TEST(process_forked_after_use_is_refused_and_exits_cleanly) {
  neuron::Core& core = neuron::core(0);
  Stream& stream = core.default_stream();
  void* const block = core.allocator().allocate(1000, 0);
  Gate gate;
  hold(stream, gate);  // the queue is not empty when the process forks
  neuron::Event event(true);
  event.record(stream);
  const auto nothing = Image().load();
  const int status = status_of_child([&] {
    if (!neuron::in_forked_child()) std::_Exit(6);
    expect_refused([] { neuron::core(0); });
    expect_refused([] { neuron::core(1); });
    expect_refused([&] { stream.submit(small_task("task", [] {})); });
    expect_refused([&] { stream.launch(nothing, {}, {}); });
    expect_refused([&] { stream.sleep(1); });
    expect_refused([&] { stream.synchronize(); });
    expect_refused([&] { core.synchronize(); });
    expect_refused([&] { event.record(stream); });
    expect_refused([&] { event.block(stream); });
    expect_refused([&] { event.synchronize(); });
    expect_refused([&] { core.allocator().allocate(10, 0); });
    expect_refused([&] { core.allocator().empty_cache(); });
    expect_refused([&] { core.allocator().stats(); });
    core.allocator().free(block);
    neuron::shutdown();
  });
  CHECK_EQUAL(status, 0);
  CHECK(!neuron::in_forked_child());
  gate.open();
  stream.synchronize();
  core.allocator().free(block);
}

TEST(process_forks_while_several_threads_use_the_device) {
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&stop] {
      Stream& stream = neuron::core(0).stream_from_pool(0);
      while (!stop) {
        void* const block = neuron::core(0).allocator().allocate(5000, stream.id());
        stream.submit(queued_task("task", [] {}));
        neuron::core(0).allocator().free(block);
        stream.synchronize();
      }
    });
  }
  neuron::core(0);
  std::vector<int> statuses;
  for (int i = 0; i < 20; ++i) statuses.push_back(status_of_child([] { neuron::shutdown(); }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  for (const int status : statuses) CHECK_EQUAL(status, 0);
}

TEST(process_shutdown_runs_what_is_queued_and_refuses_more) {
  Stream& stream = neuron::core(0).default_stream();
  Stream& consumer = neuron::core(1).default_stream();
  std::atomic<int> ran = 0;
  stream.sleep(5'000'000);
  for (int i = 0; i < 10'000; ++i) stream.submit(queued_task("task", [&ran] { ++ran; }));
  neuron::Event event(false);
  event.record(stream);
  event.block(consumer);
  int seen = 0;
  consumer.submit(queued_task("consumer", [&] { seen = ran; }));
  neuron::shutdown();
  CHECK_EQUAL(seen, 10'000);
  neuron::shutdown();
  CHECK_CONTAINS(THROWN(InvalidArgument, stream.submit(small_task("late", [] {}))), "was shut down");
  CHECK_CONTAINS(THROWN(InvalidArgument, stream.launch(Image().load(), {}, {})), "was shut down");
  THROWN(InvalidArgument, neuron::core(2));
  void* const block = neuron::core(0).allocator().allocate(10, 0);  // tensors may outlive the executor
  neuron::core(0).allocator().free(block);
  stream.synchronize();
  CHECK(event.query());
}

TEST(process_shutdown_while_other_threads_launch) {
  std::vector<std::thread> threads;
  std::atomic<int> refused = 0, started = 0;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&refused, &started, thread] {
      Stream& stream = neuron::core(thread % 2).stream_from_pool(0);
      ++started;
      try {
        for (;;) stream.submit(thread == 0 ? small_task("task", [] {}) : queued_task("task", [] {}));
      } catch (const InvalidArgument&) {
        ++refused;
      }
    });
  }
  while (started < 3) std::this_thread::yield();
  neuron::shutdown();
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(refused.load(), 3);
}

TEST(process_exits_with_a_full_queue) {
  static Gate never;
  const int status = status_of_child([] {
    Stream& stream = neuron::core(0).default_stream();
    hold(stream, never);
    for (int i = 0; i < 1000; ++i) stream.submit(queued_task("task", [] {}));
  });
  CHECK_EQUAL(status, 0);
}

TEST(process_shutdown_reports_errors_nobody_saw) {
  int pipe_ends[2];
  CHECK_EQUAL(pipe(pipe_ends), 0);
  const int status = status_of_child([&pipe_ends] {
    dup2(pipe_ends[1], 2);
    neuron::core(0).default_stream().submit(queued_task("copy", [] { throw std::runtime_error("lost"); }));
    neuron::shutdown();
  });
  CHECK_EQUAL(status, 0);
  char text[200] = {};
  CHECK(read(pipe_ends[0], text, sizeof text - 1) > 0);
  CHECK_CONTAINS(std::string(text), "neuron:0: an error was never raised, as nothing synchronized after it: copy failed: lost");
}

TEST(process_cores_thread_leaves_signals_to_the_program) {
  sigset_t blocked;
  sigemptyset(&blocked);
  neuron::core(0).default_stream().submit(queued_task("mask", [&blocked] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); }));
  neuron::core(0).synchronize();
  CHECK(sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGSEGV));
}

TEST(memory_of_a_core_is_found_by_address) {
  void* const first = neuron::core(0).allocator().allocate(100, 0);
  void* const second = neuron::core(1).allocator().allocate(100, 0);
  CHECK(neuron::core_of(first) == 0 && neuron::core_of(second) == 1 && neuron::core_of("text") == -1);
  CHECK(neuron::core(0).contains(first) && !neuron::core(0).contains(second));
}

// Not under the sanitizers: they replace the handler.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(memory_protected_is_readable_inside_commands_only) {
  setenv("TORCH_NEURONX_PROTECT_MEMORY", "1", 1);
  const auto touch_in_child = [] {
    return status_of_child([] {
      auto* const data = static_cast<volatile char*>(neuron::core(0).allocator().allocate(100, 0));
      data[0] = 1;
    });
  };
  const int status = touch_in_child();
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

  Stream& stream = neuron::core(0).default_stream();
  Stream& other = neuron::core(1).default_stream();
  auto* const data = static_cast<std::int32_t*>(neuron::core(0).allocator().allocate(16, 0));
  Gate gate;
  int nested = 0, seen = 0;
  stream.submit(small_task("inline", [&] { std::fill_n(data, 4, 3); }));
  hold(other, gate);  // another core's command runs meanwhile
  stream.submit(small_task("inline", [&] { nested = data[1]; }));
  gate.open();
  other.synchronize();
  stream.submit(queued_task("queued", [&] { seen = data[2]; }));
  stream.synchronize();
  CHECK(nested == 3 && seen == 3);
#if defined(__x86_64__)
  void* const buffers[] = {data, data};
  stream.launch(add_image(4, 4).load(), buffers, {});
  stream.submit(small_task("inline", [&] { seen = data[3]; }));
  CHECK_EQUAL(seen, 7);
#endif
}
#endif

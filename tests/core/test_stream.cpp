#include <cstdlib>
#include <thread>

#include "check.h"
#include "core/core.h"
#include "core/error.h"
#include "core/executor.h"
#include "core/stream_state.h"
#include "gate.h"
#include "image_writer.h"

using neuron::CommandError;
using neuron::InvalidArgument;
using neuron::Stream;

namespace {

Stream& default_stream(int core = 0) { return neuron::core(core).default_stream(); }

// Device memory that is freed at the end of the test.
template <typename T>
struct DeviceArray {
  explicit DeviceArray(std::size_t count, neuron::StreamId stream = 0)
      : data(static_cast<T*>(neuron::core(0).allocator().allocate(count * sizeof(T), stream))) {}
  ~DeviceArray() { neuron::core(0).allocator().free(data); }
  T* data;
};

}  // namespace

TEST(stream_runs_small_work_of_an_idle_core_on_the_submitting_thread) {
  std::thread::id ran;
  default_stream().submit(small_task("small", [&ran] { ran = std::this_thread::get_id(); }));
  CHECK(ran == std::this_thread::get_id());
  default_stream().submit(queued_task("large", [&ran] { ran = std::this_thread::get_id(); }));
  default_stream().synchronize();
  CHECK(ran != std::this_thread::get_id());
}

TEST(stream_keeps_the_order_of_its_commands) {
  Gate gate;
  hold(default_stream(), gate);
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) {
    default_stream().submit(i % 3 == 0 ? queued_task("task", [&order, i] { order.push_back(i); })
                                       : small_task("task", [&order, i] { order.push_back(i); }));
  }
  CHECK(!default_stream().query());
  gate.open();
  default_stream().synchronize();
  CHECK(default_stream().query());
  CHECK_EQUAL(order.size(), 100U);
  for (int i = 0; i < 100; ++i) CHECK_EQUAL(order[i], i);
}

TEST(stream_one_command_of_a_core_runs_at_a_time) {
  std::atomic<int> running = 0, most = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&] {
      Stream& stream = neuron::core(0).stream_from_pool(0);
      for (int i = 0; i < 200; ++i) {
        const auto run = [&] {
          most = std::max(most.load(), ++running);
          --running;
        };
        stream.submit(i % 2 == 0 ? small_task("small", run) : queued_task("large", run));
        if (i % 10 == 0) stream.synchronize();
      }
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK_EQUAL(most.load(), 1);
}

TEST(stream_high_priority_goes_first) {
  neuron::Core& core = neuron::core(0);
  Gate gate;
  Stream& normal = core.stream_from_pool(0);
  Stream& high = core.stream_from_pool(-1);
  CHECK(normal.priority() == 0 && high.priority() == -1 && normal.id() != high.id());
  hold(core.default_stream(), gate);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) normal.submit(queued_task("normal", [&order] { order.push_back(0); }));
  for (int i = 0; i < 3; ++i) high.submit(queued_task("high", [&order] { order.push_back(-1); }));
  gate.open();
  core.synchronize();
  CHECK((order == std::vector<int>{-1, -1, -1, 0, 0, 0}));
}

TEST(stream_equal_priorities_take_turns) {
  neuron::Core& core = neuron::core(0);
  Gate gate;
  Stream& one = core.stream_from_pool(0);
  Stream& two = core.stream_from_pool(0);
  hold(core.default_stream(), gate);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) one.submit(queued_task("one", [&order] { order.push_back(1); }));
  for (int i = 0; i < 3; ++i) two.submit(queued_task("two", [&order] { order.push_back(2); }));
  gate.open();
  core.synchronize();
  CHECK((order == std::vector<int>{1, 2, 1, 2, 1, 2}));
}

TEST(stream_ids_are_those_handed_out) {
  neuron::Core& core = neuron::core(0);
  CHECK_CONTAINS(THROWN(InvalidArgument, core.stream(1)), "stream id 1 of neuron:0 was never handed out");
  Stream& first = core.stream_from_pool(0);
  CHECK_EQUAL(&core.stream(first.id()), &first);
  for (int i = 1; i < 32; ++i) core.stream_from_pool(0);
  CHECK_EQUAL(&core.stream_from_pool(0), &first);
  for (const neuron::StreamId id : {-1, 33, 65, 1000}) THROWN(InvalidArgument, core.stream(id));
  CHECK_EQUAL(&core.stream(0), &core.default_stream());
  CHECK_CONTAINS(THROWN(InvalidArgument, core.stream_from_pool(1)), "stream priority 1 is not valid; allowed: 0 (normal) and -1 (high)");
  CHECK_EQUAL(first.core().index(), 0);
}

TEST(stream_sleep_holds_back_its_own_stream_only) {
  neuron::Core& core = neuron::core(0);
  Stream& other = core.stream_from_pool(0);
  const std::int64_t start = neuron::steady_nanoseconds();
  core.default_stream().sleep(30'000'000);
  bool ran = false;
  other.submit(queued_task("other", [&ran] { ran = true; }));
  other.synchronize();
  CHECK(ran);
  CHECK(!core.default_stream().query());
  core.default_stream().synchronize();
  CHECK(neuron::steady_nanoseconds() - start >= 30'000'000);
  CHECK_CONTAINS(THROWN(InvalidArgument, other.sleep(-1)), "sleep of -1 ns");
}

TEST(stream_error_surfaces_once_at_the_next_synchronisation) {
  Gate gate;
  Stream& stream = default_stream();
  int later = 0;
  for (const bool inline_execution : {true, false}) {
    const auto task = inline_execution ? small_task : queued_task;
    stream.submit(task("copy", [] { throw std::runtime_error("first"); }));
    stream.submit(task("copy", [] { throw std::runtime_error("second"); }));
    stream.submit(task("count", [&later] { ++later; }));
    CHECK_EQUAL(THROWN(CommandError, stream.synchronize()), "copy failed: first");
    stream.synchronize();
  }
  CHECK_EQUAL(later, 2);
  stream.submit(queued_task("odd", [] { throw 42; }));
  CHECK_EQUAL(THROWN(CommandError, stream.synchronize()), "odd failed: unknown exception");
}

TEST(stream_errors_of_a_core_surface_in_their_order) {
  neuron::Core& core = neuron::core(0);
  Stream& one = core.stream_from_pool(0);
  Stream& two = core.stream_from_pool(0);
  two.submit(small_task("two", [] { throw std::runtime_error("early"); }));
  one.submit(small_task("one", [] { throw std::runtime_error("late"); }));
  core.default_stream().synchronize();  // not its error
  CHECK_EQUAL(THROWN(CommandError, core.synchronize()), "two failed: early");
  CHECK_EQUAL(THROWN(CommandError, one.synchronize()), "one failed: late");
  core.synchronize();
}

TEST(stream_destroys_what_a_command_holds_before_it_completes) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  default_stream().submit(queued_task("holder", [held = std::move(held)] {}));
  default_stream().synchronize();
  CHECK(watched.expired());
}

TEST(stream_refuses_to_wait_inside_its_own_command) {
  Stream& stream = default_stream();
  stream.submit(queued_task("waiter", [&stream] {
    stream.submit(small_task("nested", [] {}));
    stream.synchronize();
  }));
  CHECK_CONTAINS(THROWN(CommandError, stream.synchronize()), "a command of neuron:0 cannot wait for the commands behind it");
  stream.submit(small_task("waiter", [&stream] {
    stream.submit(queued_task("nested", [] {}));
    stream.synchronize();
  }));
  CHECK_CONTAINS(THROWN(CommandError, stream.synchronize()), "a command of neuron:0 cannot wait for the commands behind it");
}

TEST(stream_launch_blocking_raises_at_once) {
  setenv("NEURON_LAUNCH_BLOCKING", "1", 1);
  Stream& stream = default_stream();
  bool ran = false;
  stream.submit(queued_task("task", [&ran] { ran = true; }));
  CHECK(ran && stream.query());
  CHECK_CONTAINS(THROWN(CommandError, stream.submit(queued_task("copy", [] { throw std::runtime_error("at once"); }))), "at once");
  stream.synchronize();
}

TEST(stream_sets_the_thread_count_on_the_cores_thread_when_it_changes) {
  static std::vector<std::pair<int, std::thread::id>> settings;
  neuron::set_thread_count_setter([](int threads) { settings.emplace_back(threads, std::this_thread::get_id()); });
  Stream& stream = default_stream();
  Image image;
  image.parallel = true;
  const auto nothing = image.load();
  for (const int threads : {0, 2, 2, 0, 1, 2}) stream.launch(nothing, {}, {}, nullptr, threads);
  stream.synchronize();
  CHECK_EQUAL(settings.size(), 3U);
  CHECK(settings[0].first == 2 && settings[1].first == 1 && settings[2].first == 2);
  CHECK(settings[0].second != std::this_thread::get_id());
}

TEST(stream_launch_checks_its_arguments) {
  const auto add = add_image(4, 1).load();
  const std::string text = THROWN(InvalidArgument, default_stream().launch(add, {}, std::vector<std::uint64_t>{1}));
  CHECK_EQUAL(text, "test::add was launched with 0 buffers and 1 scalars; it takes 1 inputs, 1 outputs and 0 scalars");
}

TEST(stream_pending_commands_know_what_they_read_and_write) {
  Gate gate;
  Stream& stream = default_stream();
  neuron::Queue& queue = neuron::queue_of(stream);
  hold(stream, gate);
  DeviceArray<std::int32_t> in(4), out(4);
  void* const buffers[] = {in.data, out.data};
  stream.launch(add_image(4, 1).load(), buffers, {});
  neuron::HostTask copy = small_task("copy", [] {});
  copy.reads = {{out.data, 8}};
  copy.writes = {{in.data, 8}, {in.data + 2, 8}};
  stream.submit(copy);
  const auto pending = queue.executor.pending(queue);
  CHECK_EQUAL(pending.size(), 2U + (pending[0].name == "hold"));
  const neuron::PendingCommand& launch = pending[pending.size() - 2];
  CHECK(launch.name == "test::add" && launch.reads.size() == 1 && launch.writes.size() == 1);
  CHECK(launch.reads[0].data == in.data && launch.reads[0].bytes == 16 && launch.writes[0].data == out.data);
  CHECK(pending.back().name == "copy" && pending.back().reads.size() == 1 && pending.back().writes[1].data == in.data + 2);
  gate.open();
  stream.synchronize();
  CHECK(queue.executor.pending(queue).empty());
}

#if defined(__x86_64__)

TEST(stream_launches_in_order_inline_and_queued) {
  Stream& stream = default_stream();
  DeviceArray<std::int32_t> values(4);
  stream.submit(small_task("clear", [&] { std::fill_n(values.data, 4, 0); }));
  Image image = add_image(4, 1);
  const auto inline_add = image.load();
  image.parallel = true;
  const auto queued_add = image.load();
  void* const buffers[] = {values.data, values.data};
  for (int i = 0; i < 1000; ++i) stream.launch(i % 7 == 0 ? queued_add : inline_add, buffers, {});
  int seen = 0;
  stream.submit(small_task("read", [&] { seen = values.data[3]; }));
  stream.synchronize();
  CHECK_EQUAL(seen, 1000);
}

TEST(stream_launch_failure_names_op_shapes_and_line) {
  Stream& stream = default_stream();
  Image image = failing_image("index 7 is out of range");
  for (const bool queued : {false, true}) {
    image.parallel = queued;
    const neuron::Origin origin{"train.py:12 in step"};
    stream.launch(image.load(), {}, {}, &origin);
    CHECK_EQUAL(THROWN(CommandError, stream.synchronize()),
                "test::fail failed: index 7 is out of range\n  in test::fail(i64[3])\n  queued at train.py:12 in step");
  }
}

TEST(stream_launch_scratch_is_counted_and_reused) {
  Stream& stream = default_stream();
  Image image = add_image(4, 1);
  image.scratch_bytes = 100'000;
  image.parallel = true;
  image.steps[0].buffers[1] = {neuron::Space::kScratch, 0, 99'984};
  const auto add = image.load();
  DeviceArray<std::int32_t> values(4);
  void* const buffers[] = {values.data, values.data};
  for (int i = 0; i < 10; ++i) stream.launch(add, buffers, {});
  const auto stats = neuron::core(0).allocator().stats();
  CHECK(stats.allocated_bytes[0].current == 256 && stats.allocated_bytes[0].peak == 256 + 100'352);
  stream.synchronize();
}

#endif

#include <memory>
#include <random>
#include <thread>

#include "check.h"
#include "core/core.h"
#include "core/error.h"
#include "core/event.h"
#include "gate.h"
#include "random_program.h"

using neuron::Event;
using neuron::InvalidArgument;
using neuron::Stream;

TEST(event_never_recorded_is_reached) {
  const Event event(false);
  CHECK(event.query());
  event.synchronize();
  event.block(neuron::core(0).default_stream());
  CHECK(neuron::core(0).default_stream().query());
}

TEST(event_marks_what_is_queued_when_it_is_recorded) {
  Stream& stream = neuron::core(0).default_stream();
  for (const bool timing : {false, true}) {
    Gate first, second;
    Event event(timing);
    hold(stream, first);
    event.record(stream);
    hold(stream, second);
    CHECK(!event.query());
    first.open();
    event.synchronize();
    CHECK(event.query());
    CHECK(!stream.query());
    event.record(stream);
    CHECK(!event.query());
    second.open();
    event.synchronize();
    stream.synchronize();
  }
}

TEST(event_holds_back_later_commands_of_another_stream) {
  for (const int other_core : {0, 1}) {
    Stream& producer = neuron::core(0).stream_from_pool(0);
    Stream& consumer = neuron::core(other_core).stream_from_pool(0);
    Gate gate;
    std::vector<int> order;
    Event event(false);
    hold(producer, gate);
    producer.submit(queued_task("produce", [&order] { order.push_back(1); }));
    event.record(producer);
    event.block(consumer);
    consumer.submit(small_task("consume", [&order] { order.push_back(2); }));
    CHECK(!consumer.query());
    gate.open();
    consumer.synchronize();
    CHECK((order == std::vector<int>{1, 2}));
    producer.synchronize();
  }
}

TEST(event_wait_does_not_block_other_streams_of_the_core) {
  Stream& producer = neuron::core(0).default_stream();
  Stream& waiting = neuron::core(1).stream_from_pool(0);
  Stream& free = neuron::core(1).stream_from_pool(0);
  Gate gate;
  Event event(false);
  hold(producer, gate);
  event.record(producer);
  event.block(waiting);
  waiting.submit(queued_task("waits", [] {}));
  bool ran = false;
  free.submit(queued_task("free", [&ran] { ran = true; }));
  free.synchronize();
  CHECK(ran && !waiting.query());
  gate.open();
  waiting.synchronize();
}

TEST(event_measures_time_between_marks) {
  Stream& stream = neuron::core(0).default_stream();
  Event start(true), end(true);
  start.record(stream);
  stream.sleep(20'000'000);
  end.record(stream);
  CHECK_CONTAINS(THROWN(InvalidArgument, start.elapsed_ms(end)), "the end event has not been reached yet");
  end.synchronize();
  CHECK(start.elapsed_ms(end) >= 20.0);
  CHECK(end.elapsed_ms(start) <= -20.0);
}

TEST(event_elapsed_time_says_what_is_missing) {
  Stream& stream = neuron::core(0).default_stream();
  Event timed(true), untimed(false), unrecorded(true);
  timed.record(stream);
  untimed.record(stream);
  CHECK(timed.timing() && !untimed.timing());
  CHECK_CONTAINS(THROWN(InvalidArgument, untimed.elapsed_ms(timed)), "the start event was created without timing");
  CHECK_CONTAINS(THROWN(InvalidArgument, timed.elapsed_ms(unrecorded)), "the end event was never recorded");
  CHECK(timed.elapsed_ms(timed) == 0.0);
}

namespace {

// What each stream has run so far: the tasks of one stream and host thread are numbered.
struct Lane {
  Stream* stream;
  std::atomic<int> submitted = 0, queued = 0, ran = 0;  // submitted is counted before the call, queued after it
  std::atomic<bool> out_of_order = false;
};

void submit_random(Lane& lane, std::mt19937& random) {
  const int number = lane.submitted++;
  const auto run = [&lane, number] {
    if (lane.ran++ != number) lane.out_of_order = true;
  };
  lane.stream->submit(random() % 2 == 0 ? small_task("small", run) : queued_task("large", run));
  ++lane.queued;
}

// One thread's part: it owns some lanes, and waits for events on the lanes of all.
void run_thread(unsigned seed, std::vector<std::unique_ptr<Lane>>& lanes, std::size_t first, std::size_t count, std::atomic<int>& broken) {
  std::mt19937 random(seed);
  for (int step = 0; step < 60; ++step) {
    Lane& lane = *lanes[first + random() % count];
    Lane& other = *lanes[random() % lanes.size()];
    switch (random() % 10) {
      case 0:
        lane.stream->sleep(random() % 20'000);
        break;
      case 1:
        lane.stream->synchronize();
        break;
      case 2: {
        const int before = lane.queued;
        Event event(random() % 2 == 0);
        event.record(*lane.stream);
        event.synchronize();
        if (!event.query() || lane.ran < before) ++broken;
        break;
      }
      case 3:
      case 4: {
        // Everything the other lane was given before must have run before what this lane is given now.
        const int before = other.queued;
        Event event(random() % 2 == 0);
        event.record(*other.stream);
        event.block(*lane.stream);
        const int number = lane.submitted++;
        const bool own = &other == &lane;
        lane.stream->submit(queued_task("consumer", [&lane, &other, &broken, before, number, own] {
          if (!own && other.ran < before) ++broken;
          if (lane.ran++ != number) lane.out_of_order = true;
        }));
        ++lane.queued;
        break;
      }
      default:
        submit_random(lane, random);
    }
  }
}

}  // namespace

TEST(event_random_programs_of_several_threads_keep_every_order) {
  for (int program = 0; program < random_programs / 2; ++program) {
    constexpr std::size_t kThreads = 3, kLanes = 2;
    std::vector<std::unique_ptr<Lane>> lanes;
    for (std::size_t i = 0; i < kThreads * kLanes; ++i) {
      lanes.push_back(std::make_unique<Lane>(&neuron::core(i % 2).stream_from_pool(i % 3 == 0 ? -1 : 0)));
    }
    std::atomic<int> broken = 0;
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] { run_thread(100 * program + thread, lanes, kLanes * thread, kLanes, broken); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const int core : {0, 1}) neuron::core(core).synchronize();
    CHECK_EQUAL(broken.load(), 0);
    for (const auto& lane : lanes) {
      CHECK(!lane->out_of_order);
      CHECK_EQUAL(lane->ran.load(), lane->submitted.load());
    }
  }
}

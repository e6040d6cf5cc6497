// What a command costs beyond its work: on the submitting thread, handed to a spinning thread, handed to a parked thread; and the
// allocator. Build and run: make -C tests/core handoff
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "core/core.h"
#include "image_writer.h"

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds_since(Clock::time_point start) { return std::chrono::duration<double, std::nano>(Clock::now() - start).count(); }

// Median over 15 repeats of the nanoseconds of one of `count` calls.
double median(int count, const std::function<void()>& call) {
  std::vector<double> times;
  for (int repeat = 0; repeat < 15; ++repeat) {
    const auto start = Clock::now();
    for (int i = 0; i < count; ++i) call();
    times.push_back(nanoseconds_since(start) / count);
  }
  std::nth_element(times.begin(), times.begin() + 7, times.end());
  return times[7];
}

// One request at a time to a thread that spins or parks; the requester spins for the answer, so that only one wake-up is counted.
class Partner {
 public:
  explicit Partner(bool spin) : spin_(spin), thread_([this] { loop(); }) {}
  ~Partner() {
    request(-1);
    thread_.join();
  }
  void request(int value) {
    {
      std::lock_guard lock(mutex_);
      requested_.store(value, std::memory_order_release);
    }
    if (!spin_) wake_.notify_one();
  }
  void call() {
    request(1);
    while (requested_.load(std::memory_order_acquire) != 0) {
    }
  }

 private:
  void loop() {
    for (;;) {
      if (spin_) {
        while (requested_.load(std::memory_order_acquire) == 0) {
        }
      } else {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return requested_.load(std::memory_order_relaxed) != 0; });
      }
      if (requested_.load(std::memory_order_relaxed) < 0) return;
      requested_.store(0, std::memory_order_release);
    }
  }

  const bool spin_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> requested_ = 0;
  std::thread thread_;
};

void busy_wait(double nanoseconds) {
  const auto start = Clock::now();
  while (nanoseconds_since(start) < nanoseconds) {
  }
}

// Median nanoseconds of one call after a pause in which a thread without work parks.
double median_after_pause(const std::function<void()>& call) {
  std::vector<double> times;
  for (int repeat = 0; repeat < 1001; ++repeat) {
    busy_wait(50'000);
    const auto start = Clock::now();
    call();
    times.push_back(nanoseconds_since(start));
  }
  std::nth_element(times.begin(), times.begin() + 500, times.end());
  return times[500];
}

void report(const char* what, double nanoseconds) { std::printf("%-72s %10.1f ns\n", what, nanoseconds); }

}  // namespace

int main() {
  neuron::Core& core = neuron::core(0);
  neuron::Stream& stream = core.default_stream();
  neuron::Allocator& allocator = core.allocator();
  void* const in = allocator.allocate(16, 0);
  void* const out = allocator.allocate(16, 0);
  void* const buffers[] = {in, out};

  const auto small = add_image(4, 1).load();
  Image with_scratch = add_image(4, 1);
  with_scratch.scratch_bytes = 4096;
  const auto scratch = with_scratch.load();
  Image queued = add_image(4, 1);
  queued.parallel = true;  // never inline, never run by a waiting thread
  const auto handed_over = queued.load();
  Image serial = add_image(4, 1);
  serial.work = 1'000'000;  // not inline, but a waiting thread may run it
  const auto helped = serial.load();
  const auto launch = [&](const auto& executable) { stream.launch(executable, buffers, {}); };

  stream.sleep(0);  // starts the core's thread: in a process of one thread glibc's locks are cheaper than they will ever be
  stream.synchronize();
  report("kernel of 4 elements, called", median(100'000, [&] { small->run(buffers, nullptr, {}); }));
  report("launch, inline", median(100'000, [&] { launch(small); }));
  report("launch, inline, with a scratch block", median(100'000, [&] { launch(scratch); }));
  stream.synchronize();
  report("launch, inline, then synchronize", median(100'000, [&] { launch(small), stream.synchronize(); }));
  report("launch, queued, 10,000 in a row and one synchronize", median(3, [&] {
                                                                  for (int i = 0; i < 10'000; ++i) launch(handed_over);
                                                                  stream.synchronize();
                                                                }) / 10'000);
  report("launch, queued (the submitting thread's part)", [&] {
    std::vector<double> times;
    for (int repeat = 0; repeat < 15; ++repeat) {
      stream.sleep(20'000'000);
      const auto start = Clock::now();
      for (int i = 0; i < 10'000; ++i) launch(handed_over);
      times.push_back(nanoseconds_since(start) / 10'000);
      stream.synchronize();
    }
    std::nth_element(times.begin(), times.begin() + 7, times.end());
    return times[7];
  }());
  report("launch, queued to the parked thread, then synchronize", median_after_pause([&] { launch(handed_over), stream.synchronize(); }));
  report("launch, queued, run by the thread that synchronizes", median(2'000, [&] { launch(helped), stream.synchronize(); }));
  report("launch, queued to the parked thread (the submitting thread's part)", [&] {
    std::vector<double> times;
    for (int repeat = 0; repeat < 1001; ++repeat) {
      busy_wait(50'000);
      const auto start = Clock::now();
      launch(handed_over);
      times.push_back(nanoseconds_since(start));
      stream.synchronize();
    }
    std::nth_element(times.begin(), times.begin() + 500, times.end());
    return times[500];
  }());
  {
    Partner spinning(true);
    report("hand-off to a spinning thread and back (bare)", median_after_pause([&] { spinning.call(); }));
  }
  {
    Partner parked(false);
    report("hand-off to a parked thread and back (bare)", median_after_pause([&] { parked.call(); }));
  }
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{100'000}, std::size_t{2'000'000}, std::size_t{30'000'000}}) {
    allocator.free(allocator.allocate(bytes, 0));
    char what[80];
    std::snprintf(what, sizeof what, "allocate and free %zu bytes, cached", bytes);
    report(what, median(100'000, [&] { allocator.free(allocator.allocate(bytes, 0)); }));
  }
  std::vector<void*> held;
  for (int i = 0; i < 1000; ++i) held.push_back(allocator.allocate(256 * (1 + i % 7), 0));
  for (int i = 0; i < 1000; i += 2) allocator.free(held[i]);
  report("allocate and free 300 bytes, cached, fragmented pool", median(100'000, [&] { allocator.free(allocator.allocate(300, 0)); }));
  neuron::shutdown();
}

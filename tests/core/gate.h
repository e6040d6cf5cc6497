// Something a command can wait for until the test lets it go.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <utility>

#include "core/stream.h"

class Gate {
 public:
  void open() {
    open_.store(true);
    open_.notify_all();
  }
  void pass() const { open_.wait(false); }

 private:
  std::atomic<bool> open_ = false;
};

// A task that is never run inline or by a waiting thread.
inline neuron::HostTask queued_task(std::string name, std::function<void()> run) {
  neuron::HostTask task;
  task.name = std::move(name);
  task.run = std::move(run);
  task.work = 1'000'000'000;
  return task;
}

inline neuron::HostTask small_task(std::string name, std::function<void()> run) {
  neuron::HostTask task;
  task.name = std::move(name);
  task.run = std::move(run);
  return task;
}

// Keeps the stream busy until the gate opens.
inline void hold(neuron::Stream& stream, const Gate& gate) {
  stream.submit(queued_task("hold", [&gate] { gate.pass(); }));
}

// A marker in a stream's queue that can be waited for and timed.
#pragma once

#include <cstdint>
#include <memory>

namespace neuron {

class Stream;

class Event {
 public:
  explicit Event(bool timing);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Marks the end of what is queued in `stream` now. Recording again moves the mark.
  void record(Stream& stream);
  // Makes what is queued in `stream` from now on wait for the mark (also across cores). No-op if never recorded.
  void block(Stream& stream) const;
  bool query() const;        // true if never recorded or reached
  void synchronize() const;  // waits for the mark on the host
  bool timing() const;
  // Milliseconds between the marks of two events. Throws InvalidArgument without timing, not recorded or not reached yet.
  double elapsed_ms(const Event& end) const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace neuron

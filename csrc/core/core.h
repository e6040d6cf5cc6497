// One virtual NeuronCore: device memory, an allocator, one executor thread and streams. And the process's table of cores.
#pragma once

#include <cstdint>
#include <memory>

#include "core/allocator.h"
#include "core/config.h"
#include "core/stream.h"

namespace neuron {

class Core {
 public:
  int index() const;
  Allocator& allocator();
  Stream& default_stream();                  // id 0
  Stream& stream(StreamId id);               // throws InvalidArgument for an id that was never handed out
  Stream& stream_from_pool(int priority);    // 32 per priority, handed out round robin; priority −1 is high, 0 is normal
  void synchronize();                        // all streams; throws the first CommandError
  bool contains(const void* pointer) const;  // is it an address in this core's arena?

 private:
  friend class Stream;
  friend class Event;
  friend Core& core(int index);
  friend void shutdown();
  explicit Core(int index, const Config& config);
  ~Core();
  struct State;
  std::unique_ptr<State> state_;
};

const Config& config();  // of the process; parsed on first use
int core_count();        // never throws, starts nothing
Core& core(int index);   // starts the core on first use; throws InvalidArgument naming the valid range
bool core_started(int index) noexcept;
int core_of(const void* pointer);  // index of the core whose memory holds the address, −1 if none
bool in_forked_child() noexcept;   // a core was started before this process was forked

// Runs everything queued, then stops all executor threads. Called at interpreter exit; later launches throw.
void shutdown();

// Called by executor threads before a command whose `threads` differs from the thread's setting. Installed by the torch face.
void set_thread_count_setter(void (*setter)(int threads));

}  // namespace neuron

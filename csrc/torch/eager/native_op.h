// An overload that has native programs: its boxed kernel and its cache.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "torch/eager/argument_plan.h"
#include "torch/eager/cache.h"
#include "torch/eager/call.h"
#include "torch/eager/launch.h"

namespace neuron::torch_face {

// Lives to the end of the process.
class NativeOp {
 public:
  NativeOp(c10::OperatorHandle handle, CallPlan plan);

  const c10::OperatorHandle& handle() const { return handle_; }
  const CallPlan& plan() const { return plan_; }
  ProgramCache& cache() { return cache_; }

  // The boxed kernel: replaces the arguments on top of the stack by the results, natively or on the CPU.
  void call(torch::jit::Stack* stack);
  // The same, but false, with the stack as it was, if no lowering serves the call.
  bool call_natively(torch::jit::Stack* stack);
  // Launches the call that was read, with new tensors for the outputs that are no arguments (undefined for those that are).
  void launch(const LaunchPlan& plan, const Call& call, const Origin* origin, Outputs& outputs);

  // Calls since the process started that were launched, and that no lowering serves.
  std::uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }
  std::uint64_t declined() const { return declined_.load(std::memory_order_relaxed); }

 private:
  c10::OperatorHandle handle_;
  CallPlan plan_;
  ProgramCache cache_;
  std::atomic<std::uint64_t> launched_{0}, declined_{0};  // counters on their own: relaxed
};

// Registers the boxed kernel of `schema_name` ("aten::add.Tensor") for neuron tensors. A second registration changes nothing.
// Throws for an op that PyTorch does not know and for static arguments that it does not have.
void register_native_op(const std::string& schema_name, std::span<const std::int64_t> static_arguments,
                        std::span<const std::int64_t> written_arguments);

// The op of that name, made on first use without registering a kernel.
NativeOp& native_op(const std::string& schema_name);

// Launches by schema name with overload since the last clear.
std::map<std::string, std::uint64_t> executed_counts();
void clear_executed_counts();

// Since the process started; programs: held now.
struct EagerStats {
  std::uint64_t native = 0;    // launches
  std::uint64_t declined = 0;  // calls of native ops that no lowering serves
  std::uint64_t misses = 0;    // calls of Python to compile
  std::uint64_t programs = 0;
  double compile_seconds = 0;
};
EagerStats eager_stats();

// Forgets all programs. Waits for launches that other threads are making; releases the GIL.
void clear_eager_cache();

}  // namespace neuron::torch_face

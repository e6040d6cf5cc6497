// The first call of a key: Python compiles a program for it.
#pragma once

#include <ATen/core/stack.h>

#include <cstdint>

#include "torch/eager/native_op.h"

namespace neuron::torch_face {

// Has torch_neuronx.eager.compile_call make a program for the arguments on top of the stack and puts it into the op's cache, or the
// fact that there is none. Compiling may resize an out= argument; the entry's key is that of the arguments as they are afterwards. If
// all that it resized was empty, the key before gets an entry too, whose launches resize.
// Threads that miss the same key at the same time compile it once. What Python raises is thrown, and nothing is cached.
void compile_missing(NativeOp& op, const Call& call, const torch::jit::Stack& stack);

struct MissStats {
  std::uint64_t misses;
  double compile_seconds;
};
MissStats miss_stats();

}  // namespace neuron::torch_face

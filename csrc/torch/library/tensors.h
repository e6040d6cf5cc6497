// Library tensors as ATen tensors: views of the same memory, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <optional>

#include "core/library.h"

namespace neuron::torch_face {

c10::ScalarType scalar_type(DType dtype);
DType dtype_of(c10::ScalarType type);  // throws for a type that programs cannot have

// Lives as long as the call; nothing is copied.
at::Tensor as_tensor(const LibraryTensor& tensor);

// The arguments of one call. Made at the start of a kernel: while it lives, the thread records no gradients and dispatches straight to
// the CPU's kernels.
class Arguments {
 public:
  explicit Arguments(const LibraryCall& call) : call_(call) {}

  at::Tensor tensor(std::size_t index) const { return as_tensor(call_.tensors[index]); }
  std::optional<at::Tensor> optional_tensor(std::size_t index) const;
  std::int64_t integer(std::size_t index) const { return call_.ints[index]; }
  bool flag(std::size_t index) const { return call_.ints[index] != 0; }
  at::IntArrayRef integers(std::size_t first, std::size_t count) const { return {call_.ints.data() + first, count}; }
  double number(std::size_t index) const { return call_.floats[index]; }

 private:
  const LibraryCall& call_;
  const c10::InferenceMode no_gradients_;
};

}  // namespace neuron::torch_face

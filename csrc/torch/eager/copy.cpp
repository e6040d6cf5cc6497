#include <ATen/core/stack.h>
#include <torch/library.h>

#include "torch/eager/eager.h"
#include "torch/eager/native_op.h"

namespace neuron::torch_face {

// Not an op for users: the program behind a strided or converting copy within one device.
TORCH_LIBRARY(neuron, m) { m.def("copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)"); }

bool eager_copy(const at::Tensor& dst, const at::Tensor& src) {
  static NativeOp& op = native_op("neuron::copy_");
  torch::jit::Stack stack{dst, src};
  return op.call_natively(&stack);
}

}  // namespace neuron::torch_face

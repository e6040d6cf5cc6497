// What other parts of the torch face may use of eager execution.
#pragma once

#include <ATen/core/Tensor.h>

namespace neuron::torch_face {

// Writes src into dst, converting dtype and resolving conjugate and negative bits, with a compiled program on the current stream of
// their device. Both are on the same neuron device, have equal sizes, any strides, and do not partially overlap.
// False if there is no native program for this pair; nothing was written then.
bool eager_copy(const at::Tensor& dst, const at::Tensor& src);

}  // namespace neuron::torch_face

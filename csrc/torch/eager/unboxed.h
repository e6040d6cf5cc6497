// Kernels with the C++ signature of their op, for the commonest signatures.
//
// The dispatcher boxes the arguments for any other kernel. That copies each tensor handle, and the first copy of a tensor that Python
// holds takes the GIL, as does the end of the last: more than all else that a launch costs.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include "torch/eager/native_op.h"

namespace neuron::torch_face {

// The kernel of `op`: with its own signature if that is a common one, else boxed.
c10::KernelFunction kernel_of(NativeOp& op);

}  // namespace neuron::torch_face

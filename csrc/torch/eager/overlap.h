// Which tensors of a call share memory.
#pragma once

#include "torch/eager/call.h"

namespace neuron::torch_face {

// For a call that writes: appends to the key, for every tensor, which earlier position it is identical to (same elements, same strides).
// Throws PyTorch's errors if a written tensor overlaps itself, or another tensor partially.
void read_overlaps(Call& call);

}  // namespace neuron::torch_face

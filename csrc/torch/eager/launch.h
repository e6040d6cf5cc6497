// Launches of resolved programs.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "core/stream.h"
#include "torch/eager/cache.h"
#include "torch/eager/call.h"

namespace neuron::torch_face {

using Outputs = c10::SmallVector<at::Tensor, 4>;

// Queues the program for the call on its device's current stream, with new tensors for the outputs that are no arguments (undefined for
// those that are). `origin` may be null.
void launch(const LaunchPlan& plan, const Call& call, const Origin* origin, Outputs& outputs);

}  // namespace neuron::torch_face

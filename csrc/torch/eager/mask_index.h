// `x[mask]` and `x[mask] = values`: compositions of programs whose sizes do not depend on how many elements a mask selects.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "torch/eager/argument_plan.h"

namespace neuron::torch_face {

// Computes a call that indexes with one mask of the leading dimensions, and replaces its arguments by the result. False, with the stack as
// it was, for any other call: those with a program of their own (one number put under a mask), several indices, and wrong sizes.
bool index_by_mask(const c10::OperatorHandle& op, const CallPlan& plan, torch::jit::Stack* stack);

// Replaces masks in a call's list of indices by the coordinates of what they select, but where one number is put under a single mask.
void expand_masks(const CallPlan& plan, torch::jit::Stack* stack);

}  // namespace neuron::torch_face

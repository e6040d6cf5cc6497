// Which Python line an op comes from, for fallback messages, command errors and traces.
#pragma once

#include <string>

namespace neuron::torch_face {

// TORCH_NEURONX_ENABLE_STACK_TRACE=1: every launch carries its Python line.
bool origins_enabled();

// "train.py:12 in step" for the innermost Python frame of the calling thread that lies outside torch and this package (the innermost
// frame of all if there is no such one). Empty on a thread without Python frames, such as the autograd engine's. Takes the GIL.
std::string python_line();

}  // namespace neuron::torch_face

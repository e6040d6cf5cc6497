// A library kernel called directly on CPU tensors, for tests.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::torch_face {

// Adds `_run_library(symbol, tensors, ints, floats, scalars)`: tensors are CPU tensors, results first, None for an absent one; they are
// written in place.
void bind_library(pybind11::module_& m);

}  // namespace neuron::torch_face

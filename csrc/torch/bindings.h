// What each part of the torch face adds to the extension module.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::torch_face {

void bind_device(pybind11::module_& m);  // device/bindings.cpp: devices, streams, memory, generators
void bind_eager(pybind11::module_& m);   // eager/bindings.cpp: native op registration, programs, fallback policy, tracking
void bind_graph(pybind11::module_& m);   // graph/bindings.cpp: compiled graphs

}  // namespace neuron::torch_face

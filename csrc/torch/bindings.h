// What each part of the torch face adds to the extension module.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::torch_face {

void bind_device(pybind11::module_& m);  // device.cpp: devices, streams, events, memory, generator
void bind_eager(pybind11::module_& m);   // eager/: native op registration, programs, fallback policy, tracking

}  // namespace neuron::torch_face

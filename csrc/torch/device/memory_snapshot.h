// The memory of all devices as Python data, in the format of PyTorch's memory visualizer.
#pragma once

#include <pybind11/pybind11.h>

namespace neuron::torch_face {

// {"segments": [...], "device_traces": [[...] per device], ...}. Segments are those of the started cores; traces are what the memory
// history recorded.
pybind11::dict memory_snapshot();

}  // namespace neuron::torch_face

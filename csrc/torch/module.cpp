// The extension module torch_neuronx._C. Each file of csrc/torch adds its own bindings through a function declared in bindings.h.
#include <pybind11/pybind11.h>

#include "torch/bindings.h"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.attr("torch_version") = NEURON_TORCH_VERSION;
  neuron::torch_face::bind_device(m);
  neuron::torch_face::bind_eager(m);
  neuron::torch_face::bind_graph(m);
}

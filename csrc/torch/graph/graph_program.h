// A compiled graph as Python calls it: tensors and numbers in, tensors out, one launch.
#pragma once

#include <ATen/core/Tensor.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/eager/cache.h"
#include "torch/eager/call.h"
#include "torch/eager/program.h"

namespace neuron::torch_face {

// What the graph was compiled for; nothing for an input that is a number or a 0-d CPU tensor, which are passed by value.
struct ExpectedTensor {
  std::vector<std::int64_t> sizes, strides;
};

// Python's `_C.GraphProgram(name, image, binding, inputs)`. The binding is an EagerProgram's whose places are [input, -1].
class GraphProgram {
 public:
  GraphProgram(std::string name, const pybind11::bytes& image, const pybind11::dict& binding,
               std::vector<std::optional<ExpectedTensor>> inputs);

  // Queues one launch on the current stream of the inputs' device. What the graph writes is
  // written. The result has one entry per return of the binding: a tensor (an input itself where the graph returns it) or None.
  // Throws for an input that is not what the graph was compiled for; nothing has been queued then.
  pybind11::list run(const pybind11::list& inputs);

 private:
  void read(const pybind11::list& inputs, Call& call) const;

  std::string name_;
  EagerProgram program_;
  std::vector<std::optional<ExpectedTensor>> inputs_;
  std::vector<bool> written_;
  std::unique_ptr<const LaunchPlan> plan_;  // resolved by the first run; the GIL guards it
};

}  // namespace neuron::torch_face

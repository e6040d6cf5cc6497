// Python's view of compiled graphs.
#include "torch/bindings.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "torch/graph/graph_program.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

using TensorShape = std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>;

std::unique_ptr<GraphProgram> make_program(std::string name, const py::bytes& image, const py::dict& binding,
                                           const std::vector<std::optional<TensorShape>>& inputs) {
  std::vector<std::optional<ExpectedTensor>> expected;
  for (const auto& input : inputs) expected.push_back(input ? std::optional(ExpectedTensor{input->first, input->second}) : std::nullopt);
  return std::make_unique<GraphProgram>(std::move(name), image, binding, std::move(expected));
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<GraphProgram>(m, "GraphProgram")
      .def(py::init(&make_program), py::arg("name"), py::arg("image"), py::arg("binding"), py::arg("inputs"))
      .def("__call__", &GraphProgram::run);
}

}  // namespace neuron::torch_face

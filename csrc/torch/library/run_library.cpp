#include "torch/library/run_library.h"

#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <string>
#include <vector>

#include "core/library.h"
#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

LibraryTensor describe(const std::optional<at::Tensor>& tensor) {
  if (!tensor) return {nullptr, DType::kAbsent, {}, {}};
  TORCH_CHECK(tensor->is_cpu(), "_run_library: got a tensor on ", tensor->device(), ", allowed are CPU tensors");
  return {tensor->data_ptr(), dtype_of(tensor->scalar_type()), tensor->sizes().vec(), tensor->strides().vec()};
}

void run_library(const std::string& symbol, const std::vector<std::optional<at::Tensor>>& tensors, const std::vector<std::int64_t>& ints,
                 const std::vector<double>& floats, const std::vector<std::uint64_t>& scalars) {
  const LibraryKernel kernel = find_library_kernel(symbol);
  TORCH_CHECK(kernel != nullptr, "_run_library: there is no library kernel '", symbol, "'");
  std::vector<LibraryTensor> described;
  for (const auto& tensor : tensors) described.push_back(describe(tensor));
  kernel({described, ints, floats, scalars});
}

}  // namespace

void bind_library(py::module_& m) {
  m.def("_run_library", &run_library, py::arg("symbol"), py::arg("tensors"), py::arg("ints") = std::vector<std::int64_t>(),
        py::arg("floats") = std::vector<double>(), py::arg("scalars") = std::vector<std::uint64_t>());
}

}  // namespace neuron::torch_face

#include "torch/graph/graph_program.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <bit>
#include <utility>

#include "torch/device/device.h"
#include "torch/eager/call.h"
#include "torch/eager/launch.h"
#include "torch/eager/origin.h"
#include "torch/eager/resolve.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

ScalarValue number(PyObject* object, const std::string& name, std::size_t index) {
  if (PyLong_Check(object)) return {static_cast<std::uint64_t>(PyLong_AsLongLong(object)), ScalarKind::kInt};
  if (PyFloat_Check(object)) return {std::bit_cast<std::uint64_t>(PyFloat_AsDouble(object)), ScalarKind::kDouble};
  throw py::type_error("graph " + name + ": input " + std::to_string(index) + " is a " + Py_TYPE(object)->tp_name +
                       "; a tensor, an int or a float is expected");
}

ScalarValue number(const at::Tensor& tensor, const std::string& name, std::size_t index) {
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0 && !tensor.is_complex(), "graph ", name, ": input ", index, " is a ",
              tensor.scalar_type(), " tensor of sizes ", tensor.sizes(), " on ", tensor.device(),
              "; it was compiled for a real number on the CPU");
  const at::Scalar value = tensor.item();
  if (tensor.is_floating_point()) return {std::bit_cast<std::uint64_t>(value.toDouble()), ScalarKind::kDouble};
  return {static_cast<std::uint64_t>(value.toLong()), ScalarKind::kInt};
}

void check_tensor(const at::Tensor& tensor, const ExpectedTensor& expected, const std::string& name, std::size_t index) {
  TORCH_CHECK(tensor.is_privateuseone(), "graph ", name, ": input ", index, " is on ", tensor.device(),
              "; it was compiled for device neuron");
  TORCH_CHECK(tensor.sizes() == at::IntArrayRef(expected.sizes) && tensor.strides() == at::IntArrayRef(expected.strides), "graph ", name,
              ": input ", index, " has sizes ", tensor.sizes(), " and strides ", tensor.strides(), "; it was compiled for ", expected.sizes,
              " and ", expected.strides);
}

}  // namespace

GraphProgram::GraphProgram(std::string name, const py::bytes& image, const py::dict& binding,
                           std::vector<std::optional<ExpectedTensor>> inputs)
    : name_(std::move(name)), program_(image, binding), inputs_(std::move(inputs)), written_(inputs_.size()) {
  for (const OutputSpec& output : program_.binding.outputs) {
    if (output.place) written_.at(output.place->argument) = true;
  }
}

void GraphProgram::read(const py::list& inputs, Call& call) const {
  call.positions.clear();
  call.device = -1;
  call.generator = nullptr;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    PyObject* object = PyList_GET_ITEM(inputs.ptr(), i);
    if (!THPVariable_Check(object)) {
      call.positions.push({nullptr, nullptr, number(object, name_, i), false});
      continue;
    }
    const at::Tensor& tensor = THPVariable_Unpack(object);
    if (!inputs_[i]) {
      call.positions.push({nullptr, nullptr, number(tensor, name_, i), false});
      continue;
    }
    check_tensor(tensor, *inputs_[i], name_, i);
    if (call.device < 0) call.device = tensor.device().index();
    TORCH_CHECK(tensor.device().index() == call.device, "graph ", name_, ": input ", i, " is on ", tensor.device(),
                ", others are on neuron:", static_cast<int>(call.device));
    void* data = written_[i] ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
    call.positions.push({&tensor, data, {}, written_[i]});
  }
  if (call.device < 0) call.device = current_device();
}

py::list GraphProgram::run(const py::list& inputs) {
  ensure_initialized();
  TORCH_CHECK(inputs.size() == inputs_.size(), "graph ", name_, " takes ", inputs_.size(), " inputs, got ", inputs.size());
  Call& call = this_call();
  read(inputs, call);
  if (plan_ == nullptr)
    plan_ = resolve(program_, call, name_, [](const Place& place) { return static_cast<std::uint32_t>(place.argument); });
  std::optional<Origin> origin;
  if (origins_enabled()) origin = Origin{python_line()};
  Outputs outputs;
  launch(*plan_, call, origin ? &*origin : nullptr, outputs);
  py::list results(plan_->returns.size());
  for (std::size_t i = 0; i < plan_->returns.size(); ++i) {
    const ReturnSpec& spec = plan_->returns[i];
    if (spec.kind == ReturnSpec::kOutput) {
      results[i] = py::cast(outputs[spec.output]);
    } else {
      results[i] = spec.kind == ReturnSpec::kArgument ? py::object(inputs[spec.place.argument]) : py::none();
    }
  }
  return results;
}

}  // namespace neuron::torch_face

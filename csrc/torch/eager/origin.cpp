#include "torch/eager/origin.h"

#include <Python.h>
#include <pybind11/pybind11.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

// Frames of these packages are machinery: the caller wants to see the line that used them.
bool is_machinery(std::string_view file) {
  constexpr std::array<std::string_view, 3> kPackages = {"/site-packages/torch/", "/dist-packages/torch/", "/torch_neuronx/"};
  for (std::string_view package : kPackages) {
    if (file.find(package) != std::string_view::npos) return true;
  }
  return false;
}

struct Line {
  std::string file, function;
  int number = 0;

  std::string text() const { return file + ":" + std::to_string(number) + " in " + function; }
};

Line line_of(PyFrameObject* frame) {
  auto code = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  return {py::str(code.attr("co_filename")), py::str(code.attr("co_name")), PyFrame_GetLineNumber(frame)};
}

}  // namespace

bool origins_enabled() {
  static const bool enabled = [] {
    const char* value = std::getenv("TORCH_NEURONX_ENABLE_STACK_TRACE");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return enabled;
}

std::string python_line() {
  if (!Py_IsInitialized()) return {};
  py::gil_scoped_acquire gil;
  auto frame = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  std::string innermost;
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    Line line = line_of(raw);
    if (!is_machinery(line.file)) return line.text();
    if (innermost.empty()) innermost = line.text();
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return innermost;
}

}  // namespace neuron::torch_face

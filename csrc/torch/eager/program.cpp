#include "torch/eager/program.h"

#include <pybind11/stl.h>

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "torch/device/error.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

[[noreturn]] void reject(const std::string& what) { throw py::value_error("EagerProgram: " + what); }

// PyTorch's names of the dtypes that a program may write.
constexpr std::pair<std::string_view, c10::ScalarType> kDTypes[] = {
    {"bool", c10::kBool},
    {"int8", c10::kChar},
    {"int16", c10::kShort},
    {"int32", c10::kInt},
    {"int64", c10::kLong},
    {"uint8", c10::kByte},
    {"uint16", c10::kUInt16},
    {"uint32", c10::kUInt32},
    {"uint64", c10::kUInt64},
    {"float16", c10::kHalf},
    {"bfloat16", c10::kBFloat16},
    {"float32", c10::kFloat},
    {"float64", c10::kDouble},
    {"complex64", c10::kComplexFloat},
    {"complex128", c10::kComplexDouble},
    {"float8_e4m3fn", c10::kFloat8_e4m3fn},
    {"float8_e5m2", c10::kFloat8_e5m2},
};

c10::ScalarType dtype_named(const std::string& name) {
  for (const auto& [label, dtype] : kDTypes) {
    if (name == label) return dtype;
  }
  reject("output dtype '" + name + "' is unknown; allowed are PyTorch's names, such as 'float32'");
}

Place place(const py::handle& argument, const py::handle& element) { return {argument.cast<int>(), element.cast<int>()}; }

Place place(const py::handle& pair) {
  auto sequence = py::cast<py::sequence>(pair);
  return place(sequence[0], sequence[1]);
}

ScalarSource scalar_source(const py::handle& item) {
  auto fields = py::cast<py::sequence>(item);
  const auto kind = fields[0].cast<std::string>();
  if (kind == "seed") return {ScalarSource::kSeed, {}, false};
  if (kind == "offset") return {ScalarSource::kOffset, {}, false};
  if (kind != "arg") reject("scalar source '" + kind + "'; allowed are 'arg', 'seed' and 'offset'");
  const auto type = fields[3].cast<std::string>();
  if (type != "f64" && type != "i64") reject("scalar type '" + type + "'; allowed are 'f64' and 'i64'");
  return {ScalarSource::kArgument, place(fields[1], fields[2]), type == "f64"};
}

OutputSpec output_spec(const py::handle& item) {
  auto fields = py::cast<py::dict>(item);
  OutputSpec spec;
  if (fields.contains("arg")) {
    spec.place = place(fields["arg"]);
    return spec;
  }
  spec.sizes = fields["sizes"].cast<std::vector<std::int64_t>>();
  spec.strides = fields["strides"].cast<std::vector<std::int64_t>>();
  spec.dtype = dtype_named(fields["dtype"].cast<std::string>());
  if (spec.sizes.size() != spec.strides.size())
    reject("an output has " + std::to_string(spec.sizes.size()) + " sizes and " + std::to_string(spec.strides.size()) + " strides");
  return spec;
}

ReturnSpec return_spec(const py::handle& item, std::size_t outputs) {
  auto fields = py::cast<py::sequence>(item);
  const auto kind = fields[0].cast<std::string>();
  if (kind == "none") return {ReturnSpec::kNone};
  if (kind == "arg") return {ReturnSpec::kArgument, 0, place(fields[1], fields[2])};
  if (kind == "output") {
    const auto index = fields[1].cast<std::uint32_t>();
    if (index >= outputs) reject("a return is output " + std::to_string(index) + " of " + std::to_string(outputs));
    return {ReturnSpec::kOutput, index};
  }
  if (kind != "list") reject("return kind '" + kind + "'; allowed are 'output', 'arg', 'none' and 'list'");
  ReturnSpec spec{ReturnSpec::kList};
  for (const py::handle element : py::cast<py::sequence>(fields[1])) spec.items.push_back(return_spec(element, outputs));
  return spec;
}

Binding parse_binding(const py::dict& fields) {
  Binding binding;
  for (const py::handle item : py::cast<py::sequence>(fields["inputs"])) binding.inputs.push_back(place(item));
  for (const py::handle item : py::cast<py::sequence>(fields["scalars"])) binding.scalars.push_back(scalar_source(item));
  for (const py::handle item : py::cast<py::sequence>(fields["outputs"])) binding.outputs.push_back(output_spec(item));
  for (const py::handle item : py::cast<py::sequence>(fields["returns"]))
    binding.returns.push_back(return_spec(item, binding.outputs.size()));
  binding.rng_draws = fields["rng_draws"].cast<std::uint64_t>();
  return binding;
}

void require_equal(std::size_t binding, std::size_t image, const char* what) {
  if (binding != image) reject("the binding has " + std::to_string(binding) + " " + what + ", the image " + std::to_string(image));
}

}  // namespace

EagerProgram::EagerProgram(const py::bytes& image, const py::dict& binding_fields) : binding(parse_binding(binding_fields)) {
  const auto bytes = static_cast<std::string_view>(image);
  executable = translated([&] { return Executable::parse(std::as_bytes(std::span(bytes.data(), bytes.size()))); });
  require_equal(binding.inputs.size(), executable->input_bytes().size(), "inputs");
  require_equal(binding.outputs.size(), executable->output_bytes().size(), "outputs");
  require_equal(binding.scalars.size(), executable->scalar_count(), "scalars");
}

}  // namespace neuron::torch_face

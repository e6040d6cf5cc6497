// Python's view of eager execution: fallback policy and tracking, native op registration, programs.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <stdexcept>

#include "torch/bindings.h"
#include "torch/eager/fallback.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

constexpr std::pair<const char*, FallbackPolicy> kPolicies[] = {
    {"warn", FallbackPolicy::kWarn}, {"silent", FallbackPolicy::kSilent}, {"error", FallbackPolicy::kError}};

void set_policy_by_name(const std::string& name) {
  for (const auto& [label, policy] : kPolicies) {
    if (name == label) return set_fallback_policy(policy);
  }
  throw py::value_error("fallback_policy: got '" + name + "', allowed are 'warn', 'silent' and 'error'");
}

std::string policy_name() {
  for (const auto& [label, policy] : kPolicies) {
    if (fallback_policy() == policy) return label;
  }
  throw std::logic_error("fallback_policy: unknown value");
}

}  // namespace

void bind_eager(py::module_& m) {
  m.def("_set_fallback_policy", &set_policy_by_name);
  m.def("_get_fallback_policy", &policy_name);
  m.def("_fallback_op_counts", &fallback_counts);
  m.def("_clear_op_tracking", &clear_fallback_counts);
}

}  // namespace neuron::torch_face

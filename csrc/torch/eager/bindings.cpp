// Python's view of eager execution: fallback policy and tracking, native ops, programs.
#include "torch/bindings.h"

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <utility>

#include "torch/eager/call_reader.h"
#include "torch/eager/fallback.h"
#include "torch/eager/native_op.h"
#include "torch/library/run_library.h"

namespace neuron::torch_face {
namespace {

namespace py = pybind11;

constexpr std::pair<const char*, FallbackPolicy> kPolicies[] = {
    {"warn", FallbackPolicy::kWarn}, {"silent", FallbackPolicy::kSilent}, {"error", FallbackPolicy::kError}};

void set_policy(const std::string& name) {
  const auto* found = std::ranges::find_if(kPolicies, [&](const auto& entry) { return name == entry.first; });
  if (found == std::end(kPolicies)) throw py::value_error("fallback_policy: got '" + name + "', allowed are 'warn', 'silent' and 'error'");
  set_fallback_policy(found->second);
}

const char* policy_name() {
  return std::ranges::find(kPolicies, fallback_policy(), &std::pair<const char*, FallbackPolicy>::second)->first;
}

void clear_tracking() {
  clear_executed_counts();
  clear_fallback_counts();
}

py::dict stats() {
  const EagerStats stats = eager_stats();
  py::dict result;
  result["hits"] = stats.native + stats.declined - std::min(stats.misses, stats.native + stats.declined);
  result["misses"] = stats.misses;
  result["programs"] = stats.programs;
  result["compile_seconds"] = stats.compile_seconds;
  result["native"] = stats.native;
  result["fallbacks"] = total_fallbacks();
  return result;
}

}  // namespace

void bind_eager(py::module_& m) {
  m.def("_set_fallback_policy", &set_policy);
  m.def("_get_fallback_policy", &policy_name);
  m.def("_executed_op_counts", &executed_counts);
  m.def("_fallback_op_counts", &fallback_counts);
  m.def("_clear_op_tracking", &clear_tracking);
  m.def("_register_native_op", [](const std::string& name, const std::vector<std::int64_t>& static_args,
                                  const std::vector<std::int64_t>& written_args) { register_native_op(name, static_args, written_args); });
  m.def("_set_compile_flags", &set_compile_flags);
  m.def("_clear_eager_cache", &clear_eager_cache);
  m.def("_eager_stats", &stats);
  py::class_<EagerProgram, std::shared_ptr<EagerProgram>>(m, "EagerProgram")
      .def(py::init<const py::bytes&, const py::dict&>(), py::arg("image"), py::arg("binding"));
  bind_library(m);
}

}  // namespace neuron::torch_face

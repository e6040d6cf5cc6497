#include "torch/eager/fallback.h"

#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <set>

#include "torch/eager/origin.h"

namespace neuron::torch_face {
namespace {

std::atomic<FallbackPolicy> policy_setting{FallbackPolicy::kWarn};  // independent of all other data: relaxed

struct Record {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> counts;  // by schema name with overload
  std::set<std::string> warned;                 // by op name
  std::uint64_t total = 0;
};

Record& record() {
  static auto* instance = new Record;  // lives as long as any thread may fall back
  return *instance;
}

std::string schema_name(const c10::OperatorHandle& op) { return c10::toString(op.operator_name()); }

std::string at_line(const std::string& line) { return line.empty() ? "" : " (at " + line + ")"; }

void warn_once(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  {
    std::lock_guard lock(record().mutex);
    if (!record().warned.insert(name).second) return;
  }
  TORCH_WARN("Operator '", name, "' fell back to CPU", origins_enabled() ? at_line(python_line()) : "",
             ": it has no native program for these arguments, so its tensors were copied to the host and back. ",
             origins_enabled() ? "" : "Set TORCH_NEURONX_ENABLE_STACK_TRACE=1 to see the Python line. ",
             "torch_neuronx.fallback_policy(\"silent\" | \"error\") changes what happens.");
}

void require_cpu_kernel(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Operator '", schema_name(op),
                              "' has neither a native program for device neuron nor a CPU kernel to fall back to", at_line(python_line()));
}

void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fall_back(op, stack); }

}  // namespace

FallbackPolicy fallback_policy() { return policy_setting.load(std::memory_order_relaxed); }

void set_fallback_policy(FallbackPolicy policy) { policy_setting.store(policy, std::memory_order_relaxed); }

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  require_cpu_kernel(op);
  const FallbackPolicy policy = fallback_policy();
  TORCH_CHECK_NOT_IMPLEMENTED(policy != FallbackPolicy::kError, "Operator '", schema_name(op),
                              "' has no native program for these arguments and fallback_policy is \"error\"", at_line(python_line()));
  {
    std::lock_guard lock(record().mutex);
    ++record().counts[schema_name(op)];
    ++record().total;
  }
  if (policy == FallbackPolicy::kWarn) warn_once(op);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

std::map<std::string, std::uint64_t> fallback_counts() {
  std::lock_guard lock(record().mutex);
  return record().counts;
}

void clear_fallback_counts() {
  std::lock_guard lock(record().mutex);
  record().counts.clear();
}

std::uint64_t total_fallbacks() {
  std::lock_guard lock(record().mutex);
  return record().total;
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>()); }

}  // namespace neuron::torch_face

#include "torch/eager/fallback.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/native/CPUFallback.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "torch/device/device.h"
#include "torch/device/generator.h"
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
  const std::string line = origins_enabled() ? at_line(python_line()) : "; TORCH_NEURONX_ENABLE_STACK_TRACE=1 adds the Python line";
  c10::warn(c10::Warning(c10::UserWarning(), {__func__, "csrc/torch/eager/fallback.cpp", __LINE__},
                         "Operator '" + name + "' fell back to CPU" + line +
                             ". It has no native program for these arguments: its tensors are copied to the host and back. "
                             "torch_neuronx.fallback_policy('silent' or 'error') changes what happens.",
                         /*verbatim=*/false));
}

// Where PyTorch composes the op of others for every device: run like that, each of the others is native or falls back by itself.
std::optional<c10::DispatchKey> composition(const c10::OperatorHandle& op) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  for (auto key : {c10::DispatchKey::CompositeExplicitAutograd, c10::DispatchKey::CompositeExplicitAutogradNonFunctional,
                   c10::DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return key;
  }
  return std::nullopt;
}

void require_cpu_kernel(const c10::OperatorHandle& op) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasKernelForDispatchKey(c10::DispatchKey::CPU), "Operator '", schema_name(op),
                              "' has neither a native program for device neuron nor a CPU kernel to fall back to", at_line(python_line()));
}

// The device of a call: that of its first tensor, else of its device argument, else the current one.
c10::DeviceIndex device_of(std::span<const c10::IValue> arguments) {
  auto on_device = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().is_privateuseone();
  };
  for (const c10::IValue& value : arguments) {
    if (on_device(value)) return value.toTensor().device().index();
    if (!value.isTensorList() && !value.isOptionalTensorList()) continue;
    for (const c10::IValue& element : value.toListRef()) {
      if (on_device(element)) return element.toTensor().device().index();
    }
  }
  for (const c10::IValue& value : arguments) {
    if (value.isDevice() && value.toDevice().type() == kNeuron) return device_or_current(value.toDevice().index());
  }
  return current_device();
}

// A CPU generator whose numbers follow from the device generator's seed and offset, and which advances that offset.
at::Generator derived_generator(const at::Generator& generator) {
  const auto [seed, offset] = at::check_generator<Generator>(generator)->reserve(1);
  // The finaliser of splitmix64: neighbouring offsets give unrelated seeds.
  std::uint64_t mixed = seed + (offset + 1) * 0x9E3779B97F4A7C15ULL;
  mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9ULL;
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBULL;
  return at::detail::createCPUGenerator(mixed ^ mixed >> 31);
}

// CPU kernels draw from CPU generators. The program's own CPU generator is not theirs to advance.
void replace_generators(const c10::OperatorHandle& op, std::span<c10::IValue> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    c10::TypePtr type = op.schema().arguments()[i].type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() != c10::TypeKind::GeneratorType) continue;
    arguments[i] = derived_generator(arguments[i].isNone() ? default_generator(device_of(arguments)) : arguments[i].toGenerator());
  }
}

// Written arguments that the schema does not declare are copied to the host here, and back at the end of the scope's work.
class HiddenWrites {
 public:
  HiddenWrites(std::span<c10::IValue> arguments, std::span<const int> indices) {
    for (int index : indices) {
      if (!arguments[index].isTensor() || !arguments[index].toTensor().defined()) continue;
      const at::Tensor on_device = arguments[index].toTensor();
      pairs_.emplace_back(on_device, on_device.cpu());
      arguments[index] = pairs_.back().second;
    }
  }
  void copy_back() const {
    for (const auto& [on_device, on_host] : pairs_) on_device.copy_(on_host);
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
};

void boxed_fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { fall_back(op, stack); }

}  // namespace

FallbackPolicy fallback_policy() { return policy_setting.load(std::memory_order_relaxed); }

void set_fallback_policy(FallbackPolicy policy) { policy_setting.store(policy, std::memory_order_relaxed); }

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::span<const int> hidden_writes) {
  if (const auto key = composition(op)) return op.callBoxedForDispatchKey(*key, *stack);
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
  const std::size_t count = op.schema().arguments().size();
  const std::span arguments(stack->data() + stack->size() - count, count);
  replace_generators(op, arguments);
  const HiddenWrites writes(arguments, hidden_writes);
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
  writes.copy_back();
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

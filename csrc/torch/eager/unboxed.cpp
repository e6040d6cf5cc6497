#include "torch/eager/unboxed.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "torch/eager/call_reader.h"
#include "torch/eager/origin.h"

namespace neuron::torch_face {
namespace {

using at::Scalar;
using at::Tensor;

struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(NativeOp& native_op) : op(native_op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) { op.call(stack); }
  NativeOp& op;
};

// The only argument that an op of these signatures writes.
template <typename First, typename... Rest>
Tensor& written(First&& first, Rest&&... rest) {
  if constexpr (std::is_same_v<First, Tensor&>) {
    return first;
  } else {
    return written(std::forward<Rest>(rest)...);
  }
}

template <typename Signature>
struct UnboxedKernel;

template <typename Result, typename... Arguments>
struct UnboxedKernel<Result(Arguments...)> final : c10::OperatorKernel {
  explicit UnboxedKernel(NativeOp& native_op) : op(native_op) {}

  Result operator()(Arguments... arguments) {
    ensure_initialized();
    if (!origins_enabled()) {
      Call& call = this_call();
      CallReader reader(call);
      const ArgumentPlan* plan = op.plan().arguments.data();
      (reader.argument(*plan++, arguments), ...);
      reader.finish(op.plan());
      const ReadSection section;
      const CacheEntry* entry = op.cache().find(call.key.span(), call.hash);
      if (entry != nullptr && entry->plan != nullptr && returns_as_expected(*entry->plan)) {
        Outputs outputs;
        op.launch(*entry->plan, call, /*origin=*/nullptr, outputs);
        if constexpr (std::is_same_v<Result, Tensor>) {
          return std::move(outputs[entry->plan->returns[0].output]);
        } else {
          return written<Arguments...>(std::forward<Arguments>(arguments)...);
        }
      }
    }
    const auto boxed = c10::BoxedKernel::makeFromFunctor(std::make_unique<BoxedKernel>(op));
    return c10::impl::BoxedKernelWrapper<Result(Arguments...)>::call(boxed, op.handle(), {}, std::forward<Arguments>(arguments)...);
  }

  static bool returns_as_expected(const LaunchPlan& plan) {
    return plan.returns[0].kind == (std::is_same_v<Result, Tensor> ? ReturnSpec::kOutput : ReturnSpec::kArgument);
  }

  NativeOp& op;
};

template <typename Signature>
c10::KernelFunction unboxed(NativeOp& op) {
  using Kernel = UnboxedKernel<Signature>;
  return c10::KernelFunction::makeFromUnboxedFunctor</*AllowLegacyTypes=*/true, Kernel>(std::make_unique<Kernel>(op));
}

// One letter per argument: T a tensor, W a tensor that is written and returned, S a Scalar, i an int, b a bool.
struct KnownSignature {
  std::string_view letters;
  c10::KernelFunction (*kernel)(NativeOp&);
};

constexpr KnownSignature kSignatures[] = {
    {"T", unboxed<Tensor(const Tensor&)>},
    {"TT", unboxed<Tensor(const Tensor&, const Tensor&)>},
    {"TTT", unboxed<Tensor(const Tensor&, const Tensor&, const Tensor&)>},
    {"TS", unboxed<Tensor(const Tensor&, const Scalar&)>},
    {"TTS", unboxed<Tensor(const Tensor&, const Tensor&, const Scalar&)>},
    {"TSS", unboxed<Tensor(const Tensor&, const Scalar&, const Scalar&)>},
    {"TTTS", unboxed<Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&)>},
    {"TTTSS", unboxed<Tensor(const Tensor&, const Tensor&, const Tensor&, const Scalar&, const Scalar&)>},
    {"Tib", unboxed<Tensor(const Tensor&, std::int64_t, bool)>},
    {"W", unboxed<Tensor&(Tensor&)>},
    {"WT", unboxed<Tensor&(Tensor&, const Tensor&)>},
    {"WS", unboxed<Tensor&(Tensor&, const Scalar&)>},
    {"WTS", unboxed<Tensor&(Tensor&, const Tensor&, const Scalar&)>},
    {"WSS", unboxed<Tensor&(Tensor&, const Scalar&, const Scalar&)>},
    {"WTTS", unboxed<Tensor&(Tensor&, const Tensor&, const Tensor&, const Scalar&)>},
    {"TW", unboxed<Tensor&(const Tensor&, Tensor&)>},
    {"TTW", unboxed<Tensor&(const Tensor&, const Tensor&, Tensor&)>},
    {"TSW", unboxed<Tensor&(const Tensor&, const Scalar&, Tensor&)>},
    {"TTSW", unboxed<Tensor&(const Tensor&, const Tensor&, const Scalar&, Tensor&)>},
};

char letter_of(const c10::Argument& argument, const ArgumentPlan& plan) {
  switch (argument.real_type()->kind()) {
    case c10::TypeKind::TensorType:
      return plan.written ? 'W' : 'T';
    case c10::TypeKind::NumberType:
      return 'S';
    case c10::TypeKind::IntType:
      return 'i';
    case c10::TypeKind::BoolType:
      return 'b';
    default:
      return '?';
  }
}

// Empty unless the op returns one tensor: a new one if it writes nothing, else the one that it writes.
std::string letters_of(const NativeOp& op) {
  const c10::FunctionSchema& schema = op.handle().schema();
  std::string letters;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) letters += letter_of(schema.arguments()[i], op.plan().arguments[i]);
  const bool one_tensor = schema.returns().size() == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::TensorType;
  const auto* alias = one_tensor ? schema.returns()[0].alias_info() : nullptr;
  const bool returns_written = alias != nullptr && alias->isWrite();
  return one_tensor && op.plan().hidden_writes.empty() && returns_written == op.plan().writes ? letters : "";
}

}  // namespace

c10::KernelFunction kernel_of(NativeOp& op) {
  const std::string letters = letters_of(op);
  for (const KnownSignature& signature : kSignatures) {
    if (signature.letters == letters) return signature.kernel(op);
  }
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(op));
}

}  // namespace neuron::torch_face

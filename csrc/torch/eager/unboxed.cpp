#include "torch/eager/unboxed.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "torch/eager/call_reader.h"
#include "torch/eager/origin.h"

namespace neuron::torch_face {
namespace {

using at::Scalar;
using at::Tensor;
using at::TensorList;
using ScalarList = at::ArrayRef<at::Scalar>;

struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(NativeOp& native_op) : op(native_op) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) { op.call(stack); }
  NativeOp& op;
};

// The only argument that an op of these signatures writes and returns.
template <typename First, typename... Rest>
Tensor& written(First&& first, Rest&&... rest) {
  if constexpr (std::is_same_v<First, Tensor&>) {
    return first;
  } else {
    return written(std::forward<Rest>(rest)...);
  }
}

bool is_output(const ReturnSpec& spec) { return spec.kind == ReturnSpec::kOutput; }

// Whether the plan returns what an op with this result type can return without boxing.
template <typename Result>
bool returns_as(const LaunchPlan& plan) {
  if constexpr (std::is_void_v<Result>) {
    return plan.returns.empty();
  } else if constexpr (std::is_same_v<Result, Tensor>) {
    return is_output(plan.returns[0]);
  } else if constexpr (std::is_same_v<Result, Tensor&>) {
    return plan.returns[0].kind == ReturnSpec::kArgument;
  } else {
    return plan.returns[0].kind == ReturnSpec::kList && std::ranges::all_of(plan.returns[0].items, is_output);
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
      if (entry != nullptr && entry->plan != nullptr && returns_as<Result>(*entry->plan)) {
        Outputs outputs;
        op.launch(*entry->plan, call, /*origin=*/nullptr, outputs);
        return result(*entry->plan, outputs, std::forward<Arguments>(arguments)...);
      }
    }
    const auto boxed = c10::BoxedKernel::makeFromFunctor(std::make_unique<BoxedKernel>(op));
    return c10::impl::BoxedKernelWrapper<Result(Arguments...)>::call(boxed, op.handle(), {}, std::forward<Arguments>(arguments)...);
  }

  static Result result(const LaunchPlan& plan, Outputs& outputs, Arguments... arguments) {
    if constexpr (std::is_same_v<Result, Tensor>) {
      return std::move(outputs[plan.returns[0].output]);
    } else if constexpr (std::is_same_v<Result, Tensor&>) {
      return written<Arguments...>(std::forward<Arguments>(arguments)...);
    } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      std::vector<Tensor> tensors;
      tensors.reserve(plan.returns[0].items.size());
      for (const ReturnSpec& item : plan.returns[0].items) tensors.push_back(outputs[item.output]);
      return tensors;
    }
  }

  NativeOp& op;
};

template <typename Signature>
c10::KernelFunction unboxed(NativeOp& op) {
  using Kernel = UnboxedKernel<Signature>;
  return c10::KernelFunction::makeFromUnboxedFunctor</*AllowLegacyTypes=*/true, Kernel>(std::make_unique<Kernel>(op));
}

// One letter per argument: T a tensor, W a tensor that is written and returned, S a Scalar, i an int, b a bool; L a list of tensors,
// M one whose tensors are written, R a list of Scalars.
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
    {"L", unboxed<std::vector<Tensor>(TensorList)>},
    {"LS", unboxed<std::vector<Tensor>(TensorList, const Scalar&)>},
    {"LR", unboxed<std::vector<Tensor>(TensorList, ScalarList)>},
    {"LL", unboxed<std::vector<Tensor>(TensorList, TensorList)>},
    {"LLS", unboxed<std::vector<Tensor>(TensorList, TensorList, const Scalar&)>},
    {"M", unboxed<void(TensorList)>},
    {"MS", unboxed<void(TensorList, const Scalar&)>},
    {"MT", unboxed<void(TensorList, const Tensor&)>},
    {"MR", unboxed<void(TensorList, ScalarList)>},
    {"ML", unboxed<void(TensorList, TensorList)>},
    {"MLb", unboxed<void(TensorList, TensorList, bool)>},
    {"MLS", unboxed<void(TensorList, TensorList, const Scalar&)>},
    {"MLLS", unboxed<void(TensorList, TensorList, TensorList, const Scalar&)>},
    {"MLLR", unboxed<void(TensorList, TensorList, TensorList, ScalarList)>},
};

char letter_of(const c10::Argument& argument, bool written) {
  const c10::TypePtr type = argument.real_type();
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return written ? 'W' : 'T';
    case c10::TypeKind::NumberType:
      return 'S';
    case c10::TypeKind::IntType:
      return 'i';
    case c10::TypeKind::BoolType:
      return 'b';
    case c10::TypeKind::ListType:
      if (type->isSubtypeOf(*c10::ListType::ofTensors())) return written ? 'M' : 'L';
      return type->expectRef<c10::ListType>().getElementType()->kind() == c10::TypeKind::NumberType ? 'R' : '?';
    default:
      return '?';
  }
}

// Whether what the op returns follows from its letters: nothing or the written tensor if it writes, else a new tensor, or a list of new
// ones if it takes a list.
bool returns_follow(const c10::FunctionSchema& schema, const std::string& letters) {
  const auto& returns = schema.returns();
  if (letters.starts_with('M')) return returns.empty();
  if (returns.size() != 1) return false;
  const bool writes = letters.find('W') != std::string::npos;
  const bool returns_written = returns[0].alias_info() != nullptr && returns[0].alias_info()->isWrite();
  const auto expected = letters.starts_with('L') ? c10::TypeKind::ListType : c10::TypeKind::TensorType;
  return returns[0].type()->kind() == expected && writes == returns_written;
}

std::string letters_of(const NativeOp& op) {
  const auto& arguments = op.handle().schema().arguments();
  std::string letters;
  for (const c10::Argument& argument : arguments) {
    letters += letter_of(argument, argument.alias_info() != nullptr && argument.alias_info()->isWrite());
  }
  return returns_follow(op.handle().schema(), letters) ? letters : "";
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

#include "torch/eager/native_op.h"

#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

#include "torch/device/device.h"
#include "torch/eager/call_reader.h"
#include "torch/eager/fallback.h"
#include "torch/eager/launch.h"
#include "torch/eager/mask_index.h"
#include "torch/eager/miss.h"
#include "torch/eager/origin.h"

namespace neuron::torch_face {
namespace {

using torch::jit::Stack;

// `x[index]` with an index on the CPU: PyTorch moves it to the device of x.
void move_index_tensors(const CallPlan& plan, c10::IValue* arguments) {
  for (int index : plan.index_lists) {
    if (arguments[index].isNone()) continue;
    auto on_host = [](const c10::IValue& item) { return item.isTensor() && item.toTensor().defined() && item.toTensor().is_cpu(); };
    const auto items = arguments[index].toListRef();
    if (std::ranges::none_of(items, on_host)) continue;
    c10::List<std::optional<at::Tensor>> moved;
    for (const c10::IValue& item : items) {
      moved.push_back(on_host(item) ? item.toTensor().to(arguments[0].toTensor().device()) : item.toOptional<at::Tensor>());
    }
    arguments[index] = std::move(moved);
  }
}

const c10::IValue& at_place(const c10::IValue* arguments, const Place& place) {
  const c10::IValue& argument = arguments[place.argument];
  return place.element < 0 ? argument : argument.toListRef()[place.element];
}

c10::IValue make_return(const ReturnSpec& spec, Outputs& outputs, const c10::IValue* arguments) {
  switch (spec.kind) {
    case ReturnSpec::kOutput:
      return outputs[spec.output];
    case ReturnSpec::kArgument:
      return at_place(arguments, spec.place);
    case ReturnSpec::kNone:
      return at::Tensor();
    case ReturnSpec::kList:
      break;
  }
  c10::List<at::Tensor> list;
  list.reserve(spec.items.size());
  for (const ReturnSpec& item : spec.items) list.push_back(make_return(item, outputs, arguments).toTensor());
  return list;
}

void replace_arguments(const LaunchPlan& plan, Outputs& outputs, std::size_t argument_count, Stack* stack) {
  const c10::IValue* arguments = stack->data() + stack->size() - argument_count;
  if (plan.returns.size() == 1) {
    c10::IValue result = make_return(plan.returns[0], outputs, arguments);
    torch::jit::drop(*stack, argument_count);
    stack->push_back(std::move(result));
    return;
  }
  c10::SmallVector<c10::IValue, 4> results;
  for (const ReturnSpec& spec : plan.returns) results.push_back(make_return(spec, outputs, arguments));
  torch::jit::drop(*stack, argument_count);
  for (c10::IValue& result : results) stack->push_back(std::move(result));
}

}  // namespace

NativeOp::NativeOp(c10::OperatorHandle handle, CallPlan plan) : handle_(handle), plan_(std::move(plan)) {}

void NativeOp::call(Stack* stack) {
  if (!plan_.index_lists.empty()) {
    if (index_by_mask(handle_, plan_, stack)) return;
    expand_masks(plan_, stack);
  }
  if (!call_natively(stack)) fall_back(handle_, stack, plan_.hidden_writes);
}

bool NativeOp::call_natively(Stack* stack) {
  ensure_initialized();
  const std::size_t count = plan_.arguments.size();
  if (!plan_.index_lists.empty()) move_index_tensors(plan_, stack->data() + stack->size() - count);
  std::optional<Origin> origin;
  if (origins_enabled()) origin = Origin{python_line()};
  Call& call = this_call();
  while (true) {
    read_call(call, plan_, {stack->data() + stack->size() - count, count});
    {
      const ReadSection section;
      if (const CacheEntry* entry = cache_.find(call.key.span(), call.hash)) {
        if (entry->plan) {
          Outputs outputs;
          launch(*entry->plan, call, origin ? &*origin : nullptr, outputs);
          replace_arguments(*entry->plan, outputs, count, stack);
          return true;
        }
        declined_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    }
    compile_missing(*this, call, *stack);
  }
}

void NativeOp::launch(const LaunchPlan& plan, const Call& call, const Origin* origin, Outputs& outputs) {
  torch_face::launch(plan, call, origin, outputs);
  launched_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace neuron::torch_face

#include "torch/eager/mask_index.h"

#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace neuron::torch_face {
namespace {

// For each element of a mask, in row-major order, which of the selected ones it is, counted from 1; and how many there are.
struct Selection {
  explicit Selection(const at::Tensor& mask)
      : flat(mask.reshape({-1})), order(flat.cumsum(0)), count(order.select(0, -1).item<int64_t>()) {}

  at::Tensor flat, order;
  int64_t count;
};

at::DimVector with_rows(int64_t rows, at::IntArrayRef rest) {
  at::DimVector sizes{rows};
  sizes.append(rest.begin(), rest.end());
  return sizes;
}

// All selected rows, in the front of a tensor that could hold one more than there are: what is not selected goes to its end.
at::Tensor selected(const at::Tensor& self, const at::Tensor& mask) {
  const Selection selection(mask);
  const int64_t rows = mask.numel();
  const auto rest = self.sizes().slice(mask.dim());
  at::Tensor room = at::empty(with_rows(rows + 1, rest), self.options());
  room.index_copy_(0, at::where(selection.flat, selection.order.sub(1), rows), self.reshape(with_rows(rows, rest)));
  return room.narrow(0, 0, selection.count);
}

// `self` with the n-th row of `values` in place of the n-th selected one, or one row in place of all; nothing for other sizes.
std::optional<at::Tensor> replaced(const at::Tensor& self, const at::Tensor& mask, const at::Tensor& values, bool accumulate) {
  const auto rest = self.sizes().slice(mask.dim());
  const auto rank = static_cast<int64_t>(rest.size());
  if (values.scalar_type() != self.scalar_type() || values.dim() > rank + 1) return std::nullopt;
  at::DimVector covering(mask.sizes().begin(), mask.sizes().end());
  covering.resize(self.dim(), 1);
  at::Tensor source = values;
  if (values.dim() == rank + 1 && values.size(0) != 1) {
    const Selection selection(mask);
    if (values.size(0) != selection.count) return std::nullopt;
    at::Tensor room = at::empty(with_rows(mask.numel(), rest), self.options());
    room.narrow(0, 0, selection.count).copy_(values);
    source = room.index_select(0, selection.order.sub(1).clamp_min(0)).reshape(self.sizes());
  } else if (values.dim() == rank + 1) {
    source = values.squeeze(0);
  }
  return at::where(mask.reshape(covering), accumulate ? self.add(source) : source, self);
}

// The only index, if it is a mask of the leading dimensions of `self`; one on the CPU is moved to the device.
std::optional<at::Tensor> leading_mask(const at::Tensor& self, const c10::IValue& indices) {
  const auto items = indices.toListRef();
  const auto given = [](const c10::IValue& item) { return item.isTensor() && item.toTensor().defined(); };
  if (items.empty() || !given(items[0]) || std::any_of(items.begin() + 1, items.end(), given)) return std::nullopt;
  const at::Tensor& mask = items[0].toTensor();
  const bool fits = mask.scalar_type() == at::kBool && mask.dim() > 0 && mask.dim() <= self.dim() && self.numel() > 0 &&
                    mask.sizes() == self.sizes().slice(0, mask.dim());
  return fits ? std::optional(mask.to(self.device())) : std::nullopt;
}

bool is_mask(const c10::IValue& item) {
  return item.isTensor() && item.toTensor().defined() &&
         (item.toTensor().scalar_type() == at::kBool || item.toTensor().scalar_type() == at::kByte);
}

}  // namespace

void expand_masks(const CallPlan& plan, torch::jit::Stack* stack) {
  c10::IValue* arguments = stack->data() + stack->size() - plan.arguments.size();
  c10::IValue& indices = arguments[plan.index_lists[0]];
  if (indices.isNone()) return;
  const auto items = indices.toListRef();
  if (std::ranges::none_of(items, is_mask)) return;
  const auto given = std::ranges::count_if(items, [](const c10::IValue& item) { return item.isTensor() && item.toTensor().defined(); });
  const bool puts_one_number = plan.arguments.size() > 2 && arguments[2].isTensor() && arguments[2].toTensor().numel() == 1;
  if (given == 1 && puts_one_number) return;
  c10::List<std::optional<at::Tensor>> expanded;
  for (at::Tensor& index : at::native::expandTensors(arguments[0].toTensor(), indices.toOptionalTensorList())) {
    expanded.push_back(index.defined() ? std::optional(std::move(index)) : std::nullopt);
  }
  indices = std::move(expanded);
}

bool index_by_mask(const c10::OperatorHandle& op, const CallPlan& plan, torch::jit::Stack* stack) {
  const std::size_t count = plan.arguments.size();
  const c10::IValue* arguments = stack->data() + stack->size() - count;
  const at::Tensor self = arguments[0].toTensor();
  const auto mask = leading_mask(self, arguments[plan.index_lists[0]]);
  if (!mask) return false;
  const std::string_view name = op.operator_name().name;
  at::Tensor result;
  if (name == "aten::index") {
    if (!op.operator_name().overload_name.ends_with("out")) result = selected(self, *mask);
  } else if (name == "aten::index_put" || name == "aten::index_put_" || name == "aten::_index_put_impl_") {
    const at::Tensor& values = arguments[2].toTensor();
    if (op.operator_name().overload_name.empty() && values.numel() != 1 && values.device() == self.device()) {
      if (const auto changed = replaced(self, *mask, values, arguments[3].toBool())) {
        result = name == "aten::index_put" ? *changed : self.copy_(*changed);
      }
    }
  }
  if (!result.defined()) return false;
  torch::jit::drop(*stack, count);
  stack->emplace_back(std::move(result));
  return true;
}

}  // namespace neuron::torch_face

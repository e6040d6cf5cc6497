#include "torch/eager/argument_plan.h"

#include <ATen/core/jit_type.h>
#include <c10/util/Exception.h>

namespace neuron::torch_face {
namespace {

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (auto optional = type->cast<c10::OptionalType>()) return optional->getElementType();
  return type;
}

ArgumentKind list_kind(const c10::TypePtr& element) {
  switch (without_optional(element)->kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensorList;
    case c10::TypeKind::NumberType:
      return ArgumentKind::kScalarList;
    default:
      return ArgumentKind::kValue;
  }
}

ArgumentKind kind_of(const c10::Argument& argument) {
  const c10::TypePtr type = without_optional(argument.type());
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgumentKind::kTensor;
    case c10::TypeKind::ListType:
      return list_kind(type->expectRef<c10::ListType>().getElementType());
    case c10::TypeKind::NumberType:
      return ArgumentKind::kScalar;
    case c10::TypeKind::GeneratorType:
      return ArgumentKind::kGenerator;
    case c10::TypeKind::DeviceObjType:
      return ArgumentKind::kDevice;
    default:
      return ArgumentKind::kValue;
  }
}

bool is_index_list(const c10::Argument& argument) {
  auto list = without_optional(argument.type())->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::OptionalType && kind_of(argument) == ArgumentKind::kTensorList;
}

void make_static(CallPlan& plan, const c10::FunctionSchema& schema, std::int64_t index) {
  TORCH_CHECK(index >= 0 && index < static_cast<std::int64_t>(plan.arguments.size()), "static argument ", index, " of ", schema.name(),
              ": allowed are 0 to ", plan.arguments.size() - 1);
  ArgumentKind& kind = plan.arguments[index].kind;
  TORCH_CHECK(kind == ArgumentKind::kScalar || kind == ArgumentKind::kScalarList || kind == ArgumentKind::kValue, "static argument ", index,
              " of ", schema.name(), " has type ", schema.arguments()[index].type()->str(), "; only Scalars can be static");
  kind = ArgumentKind::kValue;
}

void make_written(CallPlan& plan, const c10::FunctionSchema& schema, std::int64_t index) {
  TORCH_CHECK(index >= 0 && index < static_cast<std::int64_t>(plan.arguments.size()) && plan.arguments[index].kind == ArgumentKind::kTensor,
              "written argument ", index, " of ", schema.name(), " is not one of its tensors");
  plan.arguments[index].written = true;
  plan.writes = true;
  plan.hidden_writes.push_back(static_cast<int>(index));
}

}  // namespace

CallPlan plan_call(const c10::FunctionSchema& schema, std::span<const std::int64_t> static_arguments,
                   std::span<const std::int64_t> written_arguments) {
  CallPlan plan;
  for (const c10::Argument& argument : schema.arguments()) {
    const bool written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    if (is_index_list(argument)) plan.index_lists.push_back(static_cast<int>(plan.arguments.size()));
    plan.arguments.push_back({kind_of(argument), written});
    plan.writes |= written;
  }
  for (std::int64_t index : static_arguments) make_static(plan, schema, index);
  for (std::int64_t index : written_arguments) make_written(plan, schema, index);
  return plan;
}

}  // namespace neuron::torch_face

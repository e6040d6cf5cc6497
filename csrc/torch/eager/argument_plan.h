// What a schema says about an op's arguments, worked out once so that a call needs no schema.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <span>
#include <vector>

namespace neuron::torch_face {

enum class ArgumentKind : std::uint8_t {
  kTensor,      // Tensor, Tensor?
  kTensorList,  // Tensor[], Tensor?[]
  kScalar,      // Scalar, Scalar?: a slot of the program, keyed by kind
  kScalarList,  // Scalar[]
  kGenerator,   // keyed not at all: programs take seed and offset at launch
  kDevice,      // where a factory's result lives; programs are the same on every device
  kValue,       // everything else, and Scalars that the lowering declared static: keyed by value
};

struct ArgumentPlan {
  ArgumentKind kind;
  bool written = false;
};

struct CallPlan {
  std::vector<ArgumentPlan> arguments;
  bool writes = false;             // some argument is written
  std::vector<int> index_lists;    // arguments of type Tensor?[], whose CPU tensors are moved to the device
  std::vector<int> hidden_writes;  // tensors that are written although the schema does not say so
};

// `static_arguments`: indices of Scalar arguments that are keyed by value. `written_arguments`: indices of tensors that the op writes
// although its schema does not say so (native_batch_norm's running statistics). Throws for an index that names no such argument.
CallPlan plan_call(const c10::FunctionSchema& schema, std::span<const std::int64_t> static_arguments,
                   std::span<const std::int64_t> written_arguments);

}  // namespace neuron::torch_face

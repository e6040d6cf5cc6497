// Reads a call's arguments into a Call, in one pass over them.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <span>
#include <string_view>

#include "torch/device/device.h"
#include "torch/eager/argument_plan.h"
#include "torch/eager/call.h"

namespace neuron::torch_face {

// Usage: one argument() per schema argument, in order, then finish(). Tensors and lists may come boxed or as they are; both give the same
// key. Throws PyTorch's errors for tensors on different devices and for writes into overlapping memory.
class CallReader {
 public:
  explicit CallReader(Call& call);

  void argument(const ArgumentPlan& plan, const c10::IValue& value);
  void argument(const ArgumentPlan& plan, const at::Tensor& value) { tensor(value, plan.written); }
  void argument(const ArgumentPlan& plan, const at::Scalar& value) { argument(plan, c10::IValue(value)); }
  void argument(const ArgumentPlan& plan, std::int64_t value) { argument(plan, c10::IValue(value)); }
  void argument(const ArgumentPlan& plan, bool value) { argument(plan, c10::IValue(value)); }
  void argument(const ArgumentPlan& plan, at::TensorList values);
  void argument(const ArgumentPlan& plan, at::ArrayRef<at::Scalar> values);
  void finish(const CallPlan& plan);

 private:
  template <typename Each>
  void list(const c10::IValue& value, Each each);
  void position(const at::Tensor* tensor, void* data, ScalarValue scalar, bool written);
  void tensor(const at::Tensor& tensor, bool written);
  void optional_tensor(const c10::IValue& value, bool written);
  void device_tensor(const at::Tensor& tensor, const at::TensorImpl& impl, bool written);
  void host_tensor(const at::Tensor& tensor, bool written);
  void scalar(const c10::IValue& value);
  void scalar(std::uint64_t key_word, std::uint64_t bits, ScalarKind kind);
  void generator(const c10::IValue& value);
  void device_argument(const c10::IValue& value);
  void by_value(const c10::IValue& value);
  void push_pair(std::uint64_t first, std::uint64_t second);
  void push_complex(c10::complex<double> value);
  void push_string(std::string_view text);

  Call& call_;
  c10::Device device_{kNeuron, -1};  // of the tensors seen so far
  c10::Device factory_device_{kNeuron, -1};
};

// All of a boxed call's arguments.
void read_call(Call& call, const CallPlan& plan, std::span<const c10::IValue> arguments);

// The position of argument `argument`'s element (-1: the argument itself) in a call with these arguments. Throws if there is none.
std::uint32_t position_of(const CallPlan& plan, std::span<const c10::IValue> arguments, int argument, int element);

// Settings that change what is compiled; part of every key.
void set_compile_flags(std::uint64_t flags);

}  // namespace neuron::torch_face

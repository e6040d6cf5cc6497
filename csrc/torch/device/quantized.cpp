// Tensors of PyTorch's quantized dtypes (qint8 …), which PyTorch is about to remove, do not exist on the device: what makes them says so.
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

namespace neuron::torch_face {
namespace {

void refuse(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, op.schema().operator_name(), ": device neuron has no tensors of quantized dtypes. Keep integers and ",
                              "scales as tensors of their own (torch.ops.quantized_decomposed, torch._int_mm, torch._scaled_mm), or use ",
                              "torch.fake_quantize_per_tensor_affine");
}

at::Tensor dequantize(const at::Tensor& self) { return self.to(at::kFloat); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("dequantize.self", dequantize);
  for (const char* maker :
       {"quantize_per_tensor", "quantize_per_tensor.tensor_qparams", "quantize_per_tensor.tensors", "quantize_per_tensor_dynamic",
        "quantize_per_channel", "_make_per_tensor_quantized_tensor", "_make_per_channel_quantized_tensor"}) {
    m.impl(maker, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  for (const char* maker : {"empty_quantized", "_empty_affine_quantized", "_empty_per_channel_affine_quantized"}) {
    m.impl(maker, torch::CppFunction::makeFromBoxedFunction<&refuse>());
  }
}

}  // namespace neuron::torch_face

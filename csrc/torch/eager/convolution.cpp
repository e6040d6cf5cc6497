// aten::_convolution chooses "overrideable" kernels for devices that it does not know: here they are the convolutions that programs serve.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <array>
#include <optional>
#include <tuple>

namespace neuron::torch_face {
namespace {

using at::Tensor;

Tensor convolution_overrideable(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, at::IntArrayRef stride,
                                at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed, at::IntArrayRef output_padding,
                                std::int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward_overrideable(const Tensor& grad_output, const Tensor& input, const Tensor& weight,
                                                                     at::IntArrayRef stride, at::IntArrayRef padding,
                                                                     at::IntArrayRef dilation, bool transposed,
                                                                     at::IntArrayRef output_padding, std::int64_t groups,
                                                                     std::array<bool, 3> output_mask) {
  const std::int64_t channels = grad_output.size(1);
  return at::convolution_backward(grad_output, input, weight, at::IntArrayRef(channels), stride, padding, dilation, transposed,
                                  output_padding, groups, output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", &convolution_overrideable);
  m.impl("convolution_backward_overrideable", &convolution_backward_overrideable);
}

}  // namespace neuron::torch_face

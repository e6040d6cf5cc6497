// "convolution" [out, input, weight, bias or absent], "convolution_input_grad" [dinput, doutput, weight] and "convolution_weight_grad"
// [dweight, doutput, input]; ints [rank, stride.., padding.., dilation.., transposed, output_padding.., groups].
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include <array>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

struct Convolution {
  explicit Convolution(const Arguments& arguments) {
    const auto rank = static_cast<std::size_t>(arguments.integer(0));
    stride = arguments.integers(1, rank);
    padding = arguments.integers(1 + rank, rank);
    dilation = arguments.integers(1 + 2 * rank, rank);
    transposed = arguments.flag(1 + 3 * rank);
    output_padding = arguments.integers(2 + 3 * rank, rank);
    groups = arguments.integer(2 + 4 * rank);
  }

  at::IntArrayRef stride, padding, dilation, output_padding;
  bool transposed;
  std::int64_t groups;
};

void convolution(const LibraryCall& call) {
  const Arguments arguments(call);
  const Convolution c(arguments);
  arguments.tensor(0).copy_(at::convolution(arguments.tensor(1), arguments.tensor(2), arguments.optional_tensor(3), c.stride, c.padding,
                                            c.dilation, c.transposed, c.output_padding, c.groups));
}

// Of the operand whose gradient is wanted only the sizes are read, so the gradient's own tensor stands in for it.
void input_grad(const LibraryCall& call) {
  const Arguments arguments(call);
  const Convolution c(arguments);
  const at::Tensor dinput = arguments.tensor(0);
  const auto gradients =
      at::convolution_backward(arguments.tensor(1), dinput, arguments.tensor(2), /*bias_sizes=*/std::nullopt, c.stride, c.padding,
                               c.dilation, c.transposed, c.output_padding, c.groups, std::array<bool, 3>{true, false, false});
  dinput.copy_(std::get<0>(gradients));
}

void weight_grad(const LibraryCall& call) {
  const Arguments arguments(call);
  const Convolution c(arguments);
  const at::Tensor dweight = arguments.tensor(0);
  const auto gradients =
      at::convolution_backward(arguments.tensor(1), arguments.tensor(2), dweight, /*bias_sizes=*/std::nullopt, c.stride, c.padding,
                               c.dilation, c.transposed, c.output_padding, c.groups, std::array<bool, 3>{false, true, false});
  dweight.copy_(std::get<1>(gradients));
}

const LibraryRegistration kConvolution("convolution", &convolution);
const LibraryRegistration kInputGrad("convolution_input_grad", &input_grad);
const LibraryRegistration kWeightGrad("convolution_weight_grad", &weight_grad);

}  // namespace
}  // namespace neuron::torch_face

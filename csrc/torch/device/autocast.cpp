// torch.autocast("neuron"): which ops run in the low precision, which in float32. The rules are CUDA's, taken from PyTorch's lists.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace neuron::torch_face {

namespace {

// PyTorch's lists name these without at::.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

at::Tensor refuse_binary_cross_entropy(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: the logarithm of a sigmoid in low "
              "precision overflows. Use binary_cross_entropy_with_logits or BCEWithLogitsLoss, which take the values before the sigmoid");
}

}  // namespace

// Ops without a rule run in whatever dtype their arguments have.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FLOAT32_BY_DTYPE_ARGUMENT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_LOWER_PRECISION_FP(LOWER_PRECISION)
  AT_FORALL_FP32(FLOAT32)
  AT_FORALL_FP32_SET_OPT_DTYPE(FLOAT32_BY_DTYPE_ARGUMENT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(WIDEST)
  // CUDA converts the arguments of a whole recurrent layer for cuDNN. Left to the products inside, every time step would convert the
  // weights anew: those products take transposed views, which the weight cache does not hold.
  LOWER_PRECISION(lstm, input)
  LOWER_PRECISION(lstm, data)
  LOWER_PRECISION(gru, input)
  LOWER_PRECISION(gru, data)
  LOWER_PRECISION(rnn_tanh, input)
  LOWER_PRECISION(rnn_tanh, data)
  LOWER_PRECISION(rnn_relu, input)
  LOWER_PRECISION(rnn_relu, data)
#undef LOWER_PRECISION
#undef FLOAT32
#undef FLOAT32_BY_DTYPE_ARGUMENT
#undef WIDEST
  m.impl("binary_cross_entropy", &refuse_binary_cross_entropy);
}

}  // namespace neuron::torch_face

// scaled_dot_product_attention: which calls run as one program, and PyTorch's operator for them.
//
// PyTorch asks `_fused_sdp_choice`; "overrideable" then calls the operators below, which hand over to neuron::attention and
// neuron::attention_backward (compiler/lowering/attention.py): the same mathematics without the results that only CUDA kernels have.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <array>
#include <cmath>
#include <optional>
#include <tuple>

namespace neuron::torch_face {
namespace {

using at::Tensor;

constexpr int64_t kHeads = 1, kLength = 2, kWidth = 3;

bool fits(const Tensor& query, const Tensor& key, const Tensor& value, bool grouped) {
  for (const Tensor* operand : {&query, &key, &value}) {
    if (operand->dim() != 4 || operand->is_nested() || operand->numel() == 0) return false;
    if (operand->scalar_type() != query.scalar_type() || !operand->is_floating_point()) return false;
  }
  const bool heads = grouped ? query.size(kHeads) % key.size(kHeads) == 0 : query.size(kHeads) == key.size(kHeads);
  return heads && key.size(kHeads) == value.size(kHeads) && key.size(kLength) == value.size(kLength) &&
         query.size(kWidth) == key.size(kWidth) && query.size(0) == key.size(0) && query.size(0) == value.size(0);
}

// Dropout, a mask with a gradient, and operands that are not plain [B, H, L, D] go through PyTorch's composition of other operators.
int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& mask, double dropout_p,
               bool is_causal, std::optional<double> scale, bool enable_gqa) {
  const bool constant_mask = !mask || !mask->defined() || (!mask->requires_grad() && mask->dim() <= 4);
  const bool native =
      at::globalContext().userEnabledOverrideableSDP() && dropout_p == 0 && constant_mask && fits(query, key, value, enable_gqa);
  return static_cast<int64_t>(native ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

double scale_or_default(std::optional<double> scale, const Tensor& query) {
  return scale.value_or(1 / std::sqrt(static_cast<double>(query.size(kWidth))));
}

std::optional<Tensor> if_defined(const Tensor& tensor) { return tensor.defined() ? std::optional(tensor) : std::nullopt; }

template <typename Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> attention(
    const Tensor& query, const Tensor& key, const Tensor& value, const std::optional<Tensor>& bias, double dropout_p, bool is_causal,
    bool return_debug_mask, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout_p == 0, "attention on device neuron: dropout_p is ", dropout_p,
                              "; allowed is 0 (scaled_dot_product_attention composes dropout of other operators)");
  static const auto op =
      find_operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const std::optional<Tensor>&, bool, double)>(
          "neuron::attention");
  auto [out, logsumexp] = op.call(query, key, value, bias, is_causal, scale_or_default(scale, query));
  return {out, logsumexp, Tensor(), Tensor(), query.sym_size(kLength), key.sym_size(kLength), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> attention_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                                                              const Tensor& value, const Tensor& bias, std::array<bool, 4> grad_input_mask,
                                                              const Tensor& out, const Tensor& logsumexp, const Tensor& cum_seq_q,
                                                              const Tensor& cum_seq_k, c10::SymInt max_q, c10::SymInt max_k,
                                                              double dropout_p, bool is_causal, const Tensor& philox_seed,
                                                              const Tensor& philox_offset, std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(!(grad_input_mask[3] && bias.defined()),
                              "attention on device neuron has no gradient of attn_bias (scaled_dot_product_attention with a mask that "
                              "requires grad is composed of other operators)");
  static const auto op =
      find_operator<std::tuple<Tensor, Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                                       const std::optional<Tensor>&, const Tensor&, const Tensor&, bool, double)>(
          "neuron::attention_backward");
  auto [grad_query, grad_key, grad_value] =
      op.call(grad_out, query, key, value, if_defined(bias), out, logsumexp, is_causal, scale_or_default(scale, query));
  return {grad_query, grad_key, grad_value, Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fused_sdp_choice", choose);
  m.impl("_scaled_dot_product_fused_attention_overrideable", attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", attention_backward);
}

}  // namespace
}  // namespace neuron::torch_face

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &neuron::torch_face::choose)
}  // namespace at::native

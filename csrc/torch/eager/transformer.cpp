// The operators that nn.TransformerEncoder and nn.MultiheadAttention call for inference instead of their parts, as those parts.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <optional>
#include <tuple>

namespace neuron::torch_face {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

// What `mask` covers: the pairs of positions [L, L], the padding of the keys [batch, L], or both together [batch, heads, L, L].
enum MaskType : std::int64_t { kPairs = 0, kPadding = 1, kBoth = 2 };

// True where attention may look, broadcastable to [batch, heads, L, L]; undefined if it may look everywhere. In the operators' masks an
// element that is not 0 hides.
MaybeTensor visible(const MaybeTensor& mask, std::optional<std::int64_t> mask_type) {
  if (!mask || !mask->defined()) return std::nullopt;
  const Tensor shown = mask->eq(0);
  if (shown.dim() == 4) return shown;
  TORCH_CHECK(mask_type == kPairs || mask_type == kPadding, "attention: mask_type is ", mask_type.value_or(-1), " for a mask of sizes ",
              mask->sizes(), "; allowed are 0 (pairs of positions) and 1 (padding)");
  return mask_type == kPadding ? shown.unsqueeze(1).unsqueeze(1) : shown;
}

struct Heads {
  Tensor query, key, value;  // [batch, heads, length, width of a head]
};

Heads project(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t heads, const Tensor& weight, const Tensor& bias) {
  auto split = [&](const Tensor& projected) { return projected.unflatten(-1, {heads, projected.size(-1) / heads}).transpose(1, 2); };
  if (query.is_same(key) && key.is_same(value)) {
    const auto parts = at::linear(query, weight, bias).chunk(3, -1);
    return {split(parts[0]), split(parts[1]), split(parts[2])};
  }
  const auto weights = weight.chunk(3), biases = bias.chunk(3);
  return {split(at::linear(query, weights[0], biases[0])), split(at::linear(key, weights[1], biases[1])),
          split(at::linear(value, weights[2], biases[2]))};
}

std::tuple<Tensor, Tensor> multi_head_attention(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t embed_dim,
                                                std::int64_t num_head, const Tensor& qkv_weight, const Tensor& qkv_bias,
                                                const Tensor& proj_weight, const Tensor& proj_bias, const MaybeTensor& mask,
                                                bool need_weights, bool average_attn_weights, std::optional<std::int64_t> mask_type) {
  const Heads heads = project(query, key, value, num_head, qkv_weight, qkv_bias);
  const MaybeTensor shown = visible(mask, mask_type);
  auto joined = [&](const Tensor& attended) { return at::linear(attended.transpose(1, 2).flatten(2), proj_weight, proj_bias); };
  if (!need_weights) return {joined(at::scaled_dot_product_attention(heads.query, heads.key, heads.value, shown)), Tensor()};
  const double scale = 1 / std::sqrt(static_cast<double>(heads.query.size(-1)));
  Tensor scores = at::matmul(heads.query * scale, heads.key.transpose(-2, -1));
  if (shown) scores = scores.masked_fill(shown->logical_not(), -std::numeric_limits<double>::infinity());
  const Tensor weights = scores.softmax(-1);
  return {joined(at::matmul(weights, heads.value)), average_attn_weights ? weights.mean(1) : weights};
}

Tensor encoder_layer(const Tensor& src, std::int64_t embed_dim, std::int64_t num_heads, const Tensor& qkv_weight, const Tensor& qkv_bias,
                     const Tensor& proj_weight, const Tensor& proj_bias, bool use_gelu, bool norm_first, double eps,
                     const Tensor& norm_weight_1, const Tensor& norm_bias_1, const Tensor& norm_weight_2, const Tensor& norm_bias_2,
                     const Tensor& ffn_weight_1, const Tensor& ffn_bias_1, const Tensor& ffn_weight_2, const Tensor& ffn_bias_2,
                     const MaybeTensor& mask, std::optional<std::int64_t> mask_type) {
  auto attend = [&](const Tensor& x) {
    return std::get<0>(multi_head_attention(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask,
                                            /*need_weights=*/false, /*average_attn_weights=*/true, mask_type));
  };
  auto feed_forward = [&](const Tensor& x) {
    const Tensor hidden = at::linear(x, ffn_weight_1, ffn_bias_1);
    return at::linear(use_gelu ? at::gelu(hidden) : at::relu(hidden), ffn_weight_2, ffn_bias_2);
  };
  auto first_norm = [&](const Tensor& x) { return at::layer_norm(x, {embed_dim}, norm_weight_1, norm_bias_1, eps); };
  auto second_norm = [&](const Tensor& x) { return at::layer_norm(x, {embed_dim}, norm_weight_2, norm_bias_2, eps); };
  if (norm_first) {
    const Tensor x = src + attend(first_norm(src));
    return x + feed_forward(second_norm(x));
  }
  const Tensor x = first_norm(src + attend(src));
  return second_norm(x + feed_forward(x));
}

// Asked before a padded batch is made a nested tensor. There are none on the device: padding stays, and the mask hides it.
bool may_be_nested(const Tensor&, const Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_multi_head_attention", multi_head_attention);
  m.impl("_transformer_encoder_layer_fwd", encoder_layer);
  m.impl("_nested_tensor_from_mask_left_aligned", may_be_nested);
}

}  // namespace
}  // namespace neuron::torch_face

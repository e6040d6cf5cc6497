// "attention" [out, logsumexp, q, k, v, mask or absent] and "attention_backward" [dq, dk, dv, dout, q, k, v, out, logsumexp, mask or
// absent]; floats [scale], ints [causal]. q is [B, H, L, D], k and v are [B, Hkv, S, D or Dv], Hkv divides H.
//
// A boolean mask says which keys are visible, a floating one is added to the scores. causal hides keys after the query's index. A query
// that sees no key has output 0, as PyTorch's safe softmax gives it.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <limits>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

struct Attention {
  Attention(const Arguments& arguments, std::size_t first_operand, std::size_t mask_index)
      : q(arguments.tensor(first_operand)),
        k(arguments.tensor(first_operand + 1)),
        v(arguments.tensor(first_operand + 2)),
        scale(arguments.number(0)),
        causal(arguments.flag(0)) {
    TORCH_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, "attention: ", q.size(1), " query heads for ", k.size(1),
                " key heads; the first must be a multiple of the second");
    groups = q.size(1) / k.size(1);
    if (auto given = arguments.optional_tensor(mask_index)) mask = additive(*given);
  }

  // ATen's blocked kernel: no matrix of scores in memory. It has no grouped heads, no value width of its own and no empty operands.
  bool flash_applies() const {
    const auto type = q.scalar_type();
    const bool known_type = type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
    return known_type && q.size(3) == v.size(3) && q.numel() > 0 && k.numel() > 0 && !mask_hides_whole_rows();
  }

  // [B, Hkv, S, D] → [B, H, S, D]
  at::Tensor for_all_heads(const at::Tensor& tensor) const {
    if (groups == 1) return tensor;
    auto sizes = tensor.sizes().vec();
    return tensor.unsqueeze(2).expand({sizes[0], sizes[1], groups, sizes[2], sizes[3]}).reshape({sizes[0], q.size(1), sizes[2], sizes[3]});
  }

  // The sum of for_all_heads' copies.
  at::Tensor sum_of_groups(const at::Tensor& gradient) const {
    if (groups == 1) return gradient;
    auto sizes = gradient.sizes().vec();
    return gradient.reshape({sizes[0], k.size(1), groups, sizes[2], sizes[3]}).sum(2);
  }

  at::Tensor q, k, v;
  std::optional<at::Tensor> mask;  // added to the scores
  double scale;
  bool causal;
  std::int64_t groups;

 private:
  at::Tensor additive(const at::Tensor& given) const {
    if (given.scalar_type() != at::kBool) return given.to(q.scalar_type());
    return at::zeros(given.sizes(), q.options()).masked_fill_(given.logical_not(), kHidden);
  }

  bool mask_hides_whole_rows() const { return mask && mask->eq(kHidden).all(-1).any().item<bool>(); }
};

// Scores in the accumulation type with everything hidden at −inf: [B, H, L, S].
at::Tensor scores(const Attention& a, at::ScalarType type) {
  at::Tensor scores = at::matmul(a.q.to(type), a.for_all_heads(a.k).to(type).transpose(-2, -1)).mul_(a.scale);
  if (a.mask) scores = scores.add(a.mask->to(type));
  if (a.causal) {
    const auto visible = at::ones({scores.size(2), scores.size(3)}, at::TensorOptions().dtype(at::kBool)).tril_();
    scores.masked_fill_(visible.logical_not(), kHidden);
  }
  return scores;
}

at::ScalarType accumulation_type(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

// exp(scores − logsumexp); rows that see nothing are 0.
at::Tensor probabilities(const at::Tensor& scores, const at::Tensor& logsumexp) {
  const auto empty_rows = logsumexp.eq(kHidden).unsqueeze(-1);
  return scores.sub(logsumexp.unsqueeze(-1)).exp_().masked_fill_(empty_rows, 0);
}

void plain_forward(const Attention& a, const at::Tensor& out, const at::Tensor& logsumexp) {
  const at::ScalarType type = accumulation_type(a.q);
  const at::Tensor weights = scores(a, type);
  const at::Tensor sums = at::logsumexp(weights, {-1});
  out.copy_(at::matmul(probabilities(weights, sums), a.for_all_heads(a.v).to(type)));
  logsumexp.copy_(sums);
}

void attention(const LibraryCall& call) {
  const Arguments arguments(call);
  const Attention a(arguments, 2, 5);
  const at::Tensor out = arguments.tensor(0), logsumexp = arguments.tensor(1);
  if (!a.flash_applies()) return plain_forward(a, out, logsumexp);
  const auto [result, sums] = at::_scaled_dot_product_flash_attention_for_cpu(a.q, a.for_all_heads(a.k), a.for_all_heads(a.v),
                                                                              /*dropout_p=*/0.0, a.causal, a.mask, a.scale);
  out.copy_(result);
  logsumexp.copy_(sums);
}

struct Gradients {
  at::Tensor dq, dk, dv;  // of all heads
};

Gradients plain_backward(const Attention& a, const at::Tensor& dout, const at::Tensor& out, const at::Tensor& logsumexp) {
  const at::ScalarType type = accumulation_type(a.q);
  const at::Tensor gradient = dout.to(type);
  const at::Tensor weights = probabilities(scores(a, type), logsumexp.to(type));
  const at::Tensor row_sums = gradient.mul(out.to(type)).sum(-1, /*keepdim=*/true);
  const at::Tensor dscores =
      at::matmul(gradient, a.for_all_heads(a.v).to(type).transpose(-2, -1)).sub_(row_sums).mul_(weights).mul_(a.scale);
  return {at::matmul(dscores, a.for_all_heads(a.k).to(type)), at::matmul(dscores.transpose(-2, -1), a.q.to(type)),
          at::matmul(weights.transpose(-2, -1), gradient)};
}

Gradients flash_backward(const Attention& a, const at::Tensor& dout, const at::Tensor& out, const at::Tensor& logsumexp) {
  auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(dout, a.q, a.for_all_heads(a.k), a.for_all_heads(a.v), out,
                                                                               logsumexp, /*dropout_p=*/0.0, a.causal, a.mask, a.scale);
  return {dq, dk, dv};
}

void attention_backward(const LibraryCall& call) {
  const Arguments arguments(call);
  const Attention a(arguments, 4, 9);
  const at::Tensor dout = arguments.tensor(3), out = arguments.tensor(7), logsumexp = arguments.tensor(8);
  const Gradients gradients = a.flash_applies() ? flash_backward(a, dout, out, logsumexp) : plain_backward(a, dout, out, logsumexp);
  arguments.tensor(0).copy_(gradients.dq);
  arguments.tensor(1).copy_(a.sum_of_groups(gradients.dk));
  arguments.tensor(2).copy_(a.sum_of_groups(gradients.dv));
}

const LibraryRegistration kAttention("attention", &attention);
const LibraryRegistration kAttentionBackward("attention_backward", &attention_backward);

}  // namespace
}  // namespace neuron::torch_face

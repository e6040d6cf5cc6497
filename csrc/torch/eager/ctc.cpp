// PyTorch's operators of the connectionist temporal classification loss, handed over to neuron::ctc_loss and neuron::ctc_loss_backward
// (compiler/lowering/ctc.py). There lengths are tensors on the device, so that new lengths need no new program.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

namespace neuron::torch_face {
namespace {

using at::IntArrayRef;
using at::Tensor;

void check(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths, int64_t blank) {
  TORCH_CHECK(log_probs.dim() == 3 && log_probs.numel() > 0, "ctc_loss: log_probs must be [time, batch, classes], got ", log_probs.sizes());
  const auto type = log_probs.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble, "ctc_loss: log_probs are ", type,
                              "; allowed are Float and Double, use log_probs.float()");
  const int64_t time = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
  TORCH_CHECK(0 <= blank && blank < classes, "ctc_loss: blank is ", blank, "; it must be in [0, ", classes, ")");
  TORCH_CHECK(std::ssize(input_lengths) == batch && std::ssize(target_lengths) == batch, "ctc_loss: there are ", input_lengths.size(),
              " input_lengths and ", target_lengths.size(), " target_lengths for a batch of ", batch);
  TORCH_CHECK(targets.dim() == 1 || (targets.dim() == 2 && targets.size(0) == batch), "ctc_loss: targets are ", targets.sizes(),
              "; they must be [batch, longest], or one after another, for a batch of ", batch);
  const int64_t longest = targets.dim() == 2 ? targets.size(1) : targets.numel();
  for (int64_t length : input_lengths)
    TORCH_CHECK(0 <= length && length <= time, "ctc_loss: an input length is ", length, "; allowed is 0 to ", time);
  for (int64_t length : target_lengths)
    TORCH_CHECK(0 <= length && length <= longest, "ctc_loss: a target length is ", length, "; allowed is 0 to ", longest);
}

// Targets [batch, longest] on the device, int64, from those or from all targets one after another.
Tensor padded(const Tensor& targets, IntArrayRef lengths, at::Device device) {
  const Tensor moved = targets.to(device, at::kLong);
  if (moved.dim() == 2) return moved;
  const auto batch = std::ssize(lengths);
  TORCH_CHECK(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) <= moved.numel(),
              "ctc_loss: target_lengths add up to more than the ", moved.numel(), " targets");
  const int64_t longest = std::max<int64_t>(1, *std::max_element(lengths.begin(), lengths.end()));
  std::vector<int64_t> places;
  int64_t start = 0;
  for (int64_t length : lengths) {
    for (int64_t place = 0; place < longest; ++place) places.push_back(place < length ? start + place : 0);
    start += length;
  }
  if (moved.numel() == 0) return at::zeros({batch, longest}, moved.options());
  return at::index_select(moved, 0, at::tensor(places, at::kLong).to(device)).view({batch, longest});
}

Tensor on_device(IntArrayRef lengths, at::Device device) { return at::tensor(lengths, at::kLong).to(device); }

std::tuple<Tensor, Tensor> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths, IntArrayRef target_lengths,
                                    int64_t blank, bool zero_infinity) {
  check(log_probs, targets, input_lengths, target_lengths, blank);
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("neuron::ctc_loss", "")
                             .typed<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const Tensor&, int64_t)>();
  const at::Device device = log_probs.device();
  return op.call(log_probs, padded(targets, target_lengths, device), on_device(input_lengths, device), on_device(target_lengths, device),
                 blank);
}

Tensor ctc_loss_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, IntArrayRef input_lengths,
                         IntArrayRef target_lengths, const Tensor& neg_log_likelihood, const Tensor& log_alpha, int64_t blank,
                         bool zero_infinity) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("neuron::ctc_loss_backward", "")
                             .typed<Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                           const Tensor&, int64_t, bool)>();
  const at::Device device = log_probs.device();
  return op.call(grad, log_probs, padded(targets, target_lengths, device), on_device(input_lengths, device),
                 on_device(target_lengths, device), neg_log_likelihood, log_alpha, blank, zero_infinity);
}

std::vector<int64_t> on_host(const Tensor& lengths) {
  const Tensor host = lengths.to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

std::tuple<Tensor, Tensor> ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                           const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  return ctc_loss(log_probs, targets, on_host(input_lengths), on_host(target_lengths), blank, zero_infinity);
}

Tensor ctc_loss_backward_tensor(const Tensor& grad, const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                                const Tensor& target_lengths, const Tensor& neg_log_likelihood, const Tensor& log_alpha, int64_t blank,
                                bool zero_infinity) {
  return ctc_loss_backward(grad, log_probs, targets, on_host(input_lengths), on_host(target_lengths), neg_log_likelihood, log_alpha, blank,
                           zero_infinity);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", ctc_loss);
  m.impl("_ctc_loss.Tensor", ctc_loss_tensor);
  m.impl("_ctc_loss_backward", ctc_loss_backward);
  m.impl("_ctc_loss_backward.Tensor", ctc_loss_backward_tensor);
}

}  // namespace
}  // namespace neuron::torch_face

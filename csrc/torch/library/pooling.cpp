// "max_pool" [values, indices, x] and "max_pool_backward" [dinput, doutput, indices], ints [rank, window.., strides.., padding..,
// dilation..]; "avg_pool" [out, x] and "avg_pool_backward" [dinput, doutput], ints [rank, window.., strides.., padding.., ceil_mode,
// count_include_pad, divisor or 0]. Tensors are [N, C, spatial..] or [C, spatial..] with 1 to 3 spatial dimensions.
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/avg_pool3d.h>
#include <ATen/ops/avg_pool3d_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>
#include <ATen/ops/max_pool3d_with_indices.h>
#include <ATen/ops/max_pool3d_with_indices_backward.h>
#include <c10/util/Exception.h>

#include <vector>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

// The integers of one pooling. One spatial dimension is pooled as a plane of height 1, where flat indices are the same.
class Pooling {
 public:
  explicit Pooling(const Arguments& arguments) : arguments_(arguments), rank_(static_cast<std::size_t>(arguments.integer(0))) {
    TORCH_CHECK(rank_ >= 1 && rank_ <= 3, "pooling: ", rank_, " spatial dimensions, allowed are 1 to 3");
  }

  bool is_3d() const { return rank_ == 3; }
  std::vector<std::int64_t> window() const { return spatial(0, 1); }
  std::vector<std::int64_t> strides() const { return spatial(1, 1); }
  std::vector<std::int64_t> padding() const { return spatial(2, 0); }
  std::vector<std::int64_t> dilation() const { return spatial(3, 1); }
  std::int64_t after_lists(std::size_t lists, std::size_t index) const { return arguments_.integer(1 + lists * rank_ + index); }
  at::Tensor tensor(std::size_t index) const {
    at::Tensor tensor = arguments_.tensor(index);
    return rank_ == 1 ? tensor.unsqueeze(-2) : tensor;
  }

 private:
  std::vector<std::int64_t> spatial(std::size_t list, std::int64_t of_height_one) const {
    const auto values = arguments_.integers(1 + list * rank_, rank_);
    return rank_ == 1 ? std::vector<std::int64_t>{of_height_one, values[0]} : values.vec();
  }

  const Arguments& arguments_;
  std::size_t rank_;
};

// Whether the pooled size is that of ceil_mode: more windows than fit.
bool rounds_up(const Pooling& pooling, const at::Tensor& input, const at::Tensor& output) {
  const auto window = pooling.window(), strides = pooling.strides(), padding = pooling.padding(), dilation = pooling.dilation();
  const auto rank = static_cast<std::int64_t>(window.size());
  for (std::int64_t i = 0; i < rank; ++i) {
    const std::int64_t extent = input.size(i - rank) + 2 * padding[i] - dilation[i] * (window[i] - 1) - 1;
    if (output.size(i - rank) > extent / strides[i] + 1) return true;
  }
  return false;
}

void max_pool(const LibraryCall& call) {
  const Arguments arguments(call);
  const Pooling p(arguments);
  at::Tensor values = p.tensor(0), indices = p.tensor(1);
  const at::Tensor x = p.tensor(2);
  const auto pool = p.is_3d() ? at::max_pool3d_with_indices_out : at::max_pool2d_with_indices_out;
  pool(values, indices, x, p.window(), p.strides(), p.padding(), p.dilation(), rounds_up(p, x, values));
}

// Of the pooled tensor only the sizes are read, so its gradient stands in for it.
void max_pool_backward(const LibraryCall& call) {
  const Arguments arguments(call);
  const Pooling p(arguments);
  at::Tensor dinput = p.tensor(0);
  const at::Tensor doutput = p.tensor(1);
  const auto pool = p.is_3d() ? at::max_pool3d_with_indices_backward_out : at::max_pool2d_with_indices_backward_out;
  pool(dinput, doutput, dinput, p.window(), p.strides(), p.padding(), p.dilation(), rounds_up(p, dinput, doutput), p.tensor(2));
}

std::optional<std::int64_t> divisor(const Pooling& pooling) {
  const std::int64_t value = pooling.after_lists(3, 2);
  return value == 0 ? std::nullopt : std::optional(value);
}

void avg_pool(const LibraryCall& call) {
  const Arguments arguments(call);
  const Pooling p(arguments);
  at::Tensor out = p.tensor(0);
  const bool ceil_mode = p.after_lists(3, 0) != 0, count_include_pad = p.after_lists(3, 1) != 0;
  const auto pool = p.is_3d() ? static_cast<decltype(&at::avg_pool3d_out)>(at::avg_pool3d_out) : at::avg_pool2d_out;
  pool(out, p.tensor(1), p.window(), p.strides(), p.padding(), ceil_mode, count_include_pad, divisor(p));
}

void avg_pool_backward(const LibraryCall& call) {
  const Arguments arguments(call);
  const Pooling p(arguments);
  at::Tensor dinput = p.tensor(0);
  const bool ceil_mode = p.after_lists(3, 0) != 0, count_include_pad = p.after_lists(3, 1) != 0;
  const auto pool = p.is_3d() ? at::avg_pool3d_backward_out : at::avg_pool2d_backward_out;
  pool(dinput, p.tensor(1), dinput, p.window(), p.strides(), p.padding(), ceil_mode, count_include_pad, divisor(p));
}

const LibraryRegistration kMaxPool("max_pool", &max_pool);
const LibraryRegistration kMaxPoolBackward("max_pool_backward", &max_pool_backward);
const LibraryRegistration kAvgPool("avg_pool", &avg_pool);
const LibraryRegistration kAvgPoolBackward("avg_pool_backward", &avg_pool_backward);

}  // namespace
}  // namespace neuron::torch_face

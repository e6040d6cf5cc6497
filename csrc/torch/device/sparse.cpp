// Sparse COO tensors whose indices and values are neuron tensors: made, coalesced, added, masked and copied by operators on those two.
// What embedding layers with sparse gradients and their optimizers need; anything else raises PyTorch's error for the missing kernel.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_coalesced_native.h>
#include <ATen/ops/_indices_native.h>
#include <ATen/ops/_nnz_native.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors_native.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_native.h>
#include <ATen/ops/_values_native.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clone_native.h>
#include <ATen/ops/copy_sparse_to_sparse_native.h>
#include <ATen/ops/dense_dim_native.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_native.h>
#include <ATen/ops/indices_native.h>
#include <ATen/ops/is_coalesced_native.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sparse_dim_native.h>
#include <ATen/ops/sparse_resize_and_clear_native.h>
#include <ATen/ops/sparse_resize_native.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/values_native.h>
#include <ATen/ops/zero_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

namespace neuron::torch_face {
namespace {

using at::Tensor;

Tensor sparse(const Tensor& indices, const Tensor& values, at::IntArrayRef sizes, bool is_coalesced) {
  return at::_sparse_coo_tensor_unsafe(indices, values, sizes, values.options().layout(at::kSparse), is_coalesced);
}

std::int64_t product(at::IntArrayRef sizes) { return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>()); }

// The row-major number of every element among the sparse dimensions, int64 [nnz].
Tensor flat_indices(const Tensor& self) {
  const Tensor indices = self._indices();
  Tensor flat = at::zeros({indices.size(1)}, indices.options());
  for (std::int64_t dim = 0; dim < indices.size(0); ++dim) flat = flat * self.size(dim) + indices.select(0, dim);
  return flat;
}

Tensor from_flat(const Tensor& flat, at::IntArrayRef sizes) {
  std::vector<Tensor> coordinates(sizes.size());
  Tensor rest = flat;
  for (auto dim = std::ssize(sizes) - 1; dim >= 0; --dim) {
    coordinates[dim] = at::remainder(rest, sizes[dim]);
    rest = at::div(rest, sizes[dim], "floor");
  }
  return at::stack(coordinates);
}

// Sorts by index and sums the values of equal ones. How many different ones there are is read from the device.
Tensor coalesce(const Tensor& self) {
  const Tensor indices = self._indices(), values = self._values();
  const std::int64_t count = indices.size(1);
  if (count < 2) return sparse(indices.clone(), values.clone(), self.sizes(), true);
  const auto [sorted, order] = flat_indices(self).sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Tensor starts = at::cat({at::ones({1}, sorted.options().dtype(at::kBool)), sorted.slice(0, 1) != sorted.slice(0, 0, count - 1)});
  const Tensor group = starts.cumsum(0) - 1;
  const auto groups = group[count - 1].item<std::int64_t>() + 1;
  std::vector<std::int64_t> sizes = values.sizes().vec();
  sizes[0] = groups;
  const Tensor sums = at::zeros(sizes, values.options()).index_add_(0, group, values.index_select(0, order));
  const Tensor distinct = at::zeros({groups}, sorted.options()).index_copy_(0, group, sorted);
  return sparse(from_flat(distinct, self.sizes().slice(0, self.sparse_dim())), sums, self.sizes(), true);
}

// A dense tensor with its sparse dimensions as one, or nothing if that is no view.
Tensor merged(const Tensor& dense, std::int64_t sparse_dim) {
  std::vector<std::int64_t> sizes = dense.sizes().slice(sparse_dim).vec();
  sizes.insert(sizes.begin(), product(dense.sizes().slice(0, sparse_dim)));
  return dense.is_contiguous() ? dense.view(sizes) : Tensor();
}

Tensor to_dense(const Tensor& self, std::optional<at::ScalarType> dtype, std::optional<bool>) {
  Tensor dense = at::zeros(self.sizes(), self._values().options().dtype(dtype.value_or(self.scalar_type())));
  return dense.add_(self);
}

Tensor& add_(Tensor& self, const Tensor& other, const at::Scalar& alpha) {
  TORCH_CHECK(other.is_sparse(), "add_: a dense tensor cannot be added to a sparse one in place");
  TORCH_CHECK(self.sizes() == other.sizes(), "add_: sizes ", self.sizes(), " and ", other.sizes(), " of a sparse addition differ");
  if (self.is_sparse()) {
    const Tensor indices = at::cat({self._indices(), other._indices()}, 1);
    const Tensor values = at::cat({self._values(), other._values().mul(alpha).to(self.scalar_type())}, 0);
    return at::native::copy_sparse_(self, sparse(indices, values, self.sizes(), false));
  }
  const Tensor rows = merged(self, other.sparse_dim());
  if (!rows.defined()) return self.add_(other.to_dense(), alpha);
  rows.index_add_(0, flat_indices(other), other._values().to(self.scalar_type()), alpha);
  return self;
}

Tensor add(const Tensor& self, const Tensor& other, const at::Scalar& alpha) {
  if (!self.is_sparse()) return self.clone().add_(other, alpha);
  if (!other.is_sparse()) return other.mul(alpha).add_(self);
  return self.clone().add_(other, alpha);
}

// The elements of `self` where `mask` has some.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  TORCH_CHECK(self.sizes() == mask.sizes(), "sparse_mask: sizes ", self.sizes(), " and ", mask.sizes(), " differ");
  const Tensor dense = (self.is_sparse() ? self.to_dense() : self).contiguous();
  const Tensor values = merged(dense, mask.sparse_dim()).index_select(0, flat_indices(mask));
  return sparse(mask._indices().clone(), values, mask.sizes(), mask.is_coalesced());
}

Tensor neg(const Tensor& self) { return sparse(self._indices().clone(), self._values().neg(), self.sizes(), self.is_coalesced()); }

// A number may stand on either side: PyTorch writes `sparse.mul_(2)` as the product of 2 and the tensor.
Tensor mul(const Tensor& left, const Tensor& right) {
  const auto& [self, number] = left.is_sparse() ? std::tie(left, right) : std::tie(right, left);
  TORCH_CHECK_NOT_IMPLEMENTED(self.is_sparse() && number.dim() == 0 && !number.is_sparse(),
                              "mul of sparse tensors on device neuron: only sparse times a number is there");
  return sparse(self._indices().clone(), self._values().mul(number), self.sizes(), self.is_coalesced());
}

Tensor& mul_out(const Tensor& left, const Tensor& right, Tensor& out) { return at::native::copy_sparse_(out, left.mul(right)); }

Tensor& mul_(Tensor& self, const Tensor& other) { return at::native::copy_sparse_(self, self.mul(other)); }

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("empty.memory_format", at::native::empty_sparse);
  m.impl("_sparse_coo_tensor_with_dims", at::native::new_with_dims_sparse);
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(at::native::new_with_dims_and_tensor_sparse_symint));
  m.impl("_indices", at::native::_indices_sparse);
  m.impl("_values", at::native::_values_sparse);
  m.impl("indices", at::native::indices_sparse);
  m.impl("values", at::native::values_sparse);
  m.impl("_nnz", at::native::_nnz_sparse);
  m.impl("sparse_dim", at::native::sparse_dim_sparse);
  m.impl("dense_dim", at::native::dense_dim_sparse);
  m.impl("is_coalesced", at::native::is_coalesced_sparse);
  m.impl("_coalesced_", at::native::_coalesced_sparse_);
  m.impl("sparse_resize_", at::native::sparse_resize_);
  m.impl("sparse_resize_and_clear_", at::native::sparse_resize_and_clear_);
  m.impl("copy_sparse_to_sparse_", at::native::copy_sparse_);
  m.impl("clone", at::native::clone_sparse);
  m.impl("zero_", at::native::zero_sparse_);
  m.impl("_coalesce", coalesce);
  m.impl("_to_dense", to_dense);
  m.impl("add.Tensor", add);
  m.impl("add_.Tensor", add_);
  m.impl("sparse_mask", sparse_mask);
  m.impl("neg", neg);
  m.impl("mul.Tensor", mul);
  m.impl("mul_.Tensor", mul_);
  m.impl("mul.out", mul_out);
}

}  // namespace
}  // namespace neuron::torch_face

// "matmul" [out, lhs, rhs] and "addmm" [out, bias, lhs, rhs] floats [beta, alpha]: matrices, or batches of them, with any strides.
// "grouped_matmul" [out, lhs, rhs, ends]: a product per group, see the composite of this name.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

// Whether oneDNN has products of a narrow type on this CPU, as ATen's operator of this name tells; a build without oneDNN lacks it.
bool onednn_says(const char* operator_name) {
  const auto question = c10::Dispatcher::singleton().findSchema({operator_name, ""});
  return question && question->typed<bool()>().call();
}

// What a product of this element type is computed in. ATen's GEMMs have no 8-bit floats and booleans; its loops for narrow types that
// oneDNN lacks are many times slower than the product of converted operands.
at::ScalarType computed_type(at::ScalarType result) {
  static const bool has_bfloat16 = onednn_says("mkldnn::_is_mkldnn_bf16_supported");
  static const bool has_float16 = onednn_says("mkldnn::_is_mkldnn_fp16_supported");
  if (c10::isFloat8Type(result)) return at::kFloat;
  if ((result == at::kBFloat16 && !has_bfloat16) || (result == at::kHalf && !has_float16)) return at::kFloat;
  return result == at::kBool ? at::kInt : result;
}

at::Tensor of_type(const at::Tensor& tensor, at::ScalarType type) { return tensor.scalar_type() == type ? tensor : tensor.to(type); }

// Computes into `out`, or into a temporary of the computed type that is then converted.
template <typename Compute>
void compute_into(at::Tensor out, Compute compute) {
  TORCH_CHECK(out.dim() == 2 || out.dim() == 3, "matmul: the result has rank ", out.dim(), ", allowed are 2 and 3");
  const at::ScalarType type = computed_type(out.scalar_type());
  if (type == out.scalar_type()) return compute(out);
  at::Tensor result = at::empty(out.sizes(), out.options().dtype(type));
  compute(result);
  out.copy_(result);
}

// Up to this many multiplications, preparing ATen's GEMM costs more than the product written out.
constexpr std::int64_t kFewMultiplications = 512;

bool is_small(const LibraryCall& call) {
  const auto& out = call.tensors[0].sizes;
  return out.size() == 2 && out[0] * out[1] * call.tensors[1].sizes[1] <= kFewMultiplications;
}

template <typename Element>
void small_matmul(const LibraryCall& call) {
  const LibraryTensor &out = call.tensors[0], &lhs = call.tensors[1], &rhs = call.tensors[2];
  for (std::int64_t row = 0; row < out.sizes[0]; ++row) {
    for (std::int64_t column = 0; column < out.sizes[1]; ++column) {
      const auto* left = static_cast<const Element*>(lhs.data) + row * lhs.strides[0];
      const auto* right = static_cast<const Element*>(rhs.data) + column * rhs.strides[1];
      Element sum = 0;
      for (std::int64_t k = 0; k < lhs.sizes[1]; ++k) sum += left[k * lhs.strides[1]] * right[k * rhs.strides[0]];
      static_cast<Element*>(out.data)[row * out.strides[0] + column * out.strides[1]] = sum;
    }
  }
}

bool all_of_type(const LibraryCall& call, DType dtype) {
  return std::ranges::all_of(call.tensors, [&](const LibraryTensor& tensor) { return tensor.dtype == dtype; });
}

void matmul(const LibraryCall& call) {
  if (is_small(call) && all_of_type(call, DType::kFloat32)) return small_matmul<float>(call);
  if (is_small(call) && all_of_type(call, DType::kFloat64)) return small_matmul<double>(call);
  const Arguments arguments(call);
  compute_into(arguments.tensor(0), [&](at::Tensor& out) {
    const at::Tensor lhs = of_type(arguments.tensor(1), out.scalar_type()), rhs = of_type(arguments.tensor(2), out.scalar_type());
    out.dim() == 2 ? at::cpu::mm_out(out, lhs, rhs) : at::cpu::bmm_out(out, lhs, rhs);
  });
}

void addmm(const LibraryCall& call) {
  const Arguments arguments(call);
  const at::Scalar beta = arguments.number(0), alpha = arguments.number(1);
  compute_into(arguments.tensor(0), [&](at::Tensor& out) {
    const at::Tensor bias = of_type(arguments.tensor(1), out.scalar_type());
    const at::Tensor lhs = of_type(arguments.tensor(2), out.scalar_type()), rhs = of_type(arguments.tensor(3), out.scalar_type());
    out.dim() == 2 ? at::cpu::addmm_out(out, bias, lhs, rhs, beta, alpha) : at::cpu::baddbmm_out(out, bias, lhs, rhs, beta, alpha);
  });
}

// One of the three has all groups one after the other along a dimension, and the others a matrix per group, or also a part.
void grouped_products(at::Tensor& out, const at::Tensor& lhs, const at::Tensor& rhs, const at::Tensor& ends) {
  const bool rows = lhs.dim() == 2 && rhs.dim() == 3, columns = lhs.dim() == 3;
  const std::int64_t extent = rows ? lhs.size(0) : rhs.size(columns ? 1 : 0);
  out.zero_();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < ends.numel(); ++group) {
    const std::int64_t end = ends.const_data_ptr<std::int32_t>()[group * ends.stride(0)], length = end - begin;
    TORCH_CHECK(begin <= end && end <= extent, "grouped_mm: group ", group, " ends at ", end, ", allowed are ", begin, " to ", extent);
    at::Tensor result = rows ? out.narrow(0, begin, length) : columns ? out.narrow(1, begin, length) : out.select(0, group);
    const at::Tensor left = rows ? lhs.narrow(0, begin, length) : columns ? lhs.select(0, group) : lhs.narrow(1, begin, length);
    const at::Tensor right = rows ? rhs.select(0, group) : rhs.narrow(columns ? 1 : 0, begin, length);
    if (length > 0) at::cpu::mm_out(result, left, right);
    begin = end;
  }
}

void grouped_matmul(const LibraryCall& call) {
  const Arguments arguments(call);
  compute_into(arguments.tensor(0), [&](at::Tensor& out) {
    grouped_products(out, of_type(arguments.tensor(1), out.scalar_type()), of_type(arguments.tensor(2), out.scalar_type()),
                     arguments.tensor(3));
  });
}

const LibraryRegistration kMatmul("matmul", &matmul);
const LibraryRegistration kAddmm("addmm", &addmm);
const LibraryRegistration kGroupedMatmul("grouped_matmul", &grouped_matmul);

}  // namespace
}  // namespace neuron::torch_face

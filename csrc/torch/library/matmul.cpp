// "matmul" [out, lhs, rhs] and "addmm" [out, bias, lhs, rhs] floats [beta, alpha]: matrices, or batches of them, with any strides.
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/baddbmm_cpu_dispatch.h>
#include <ATen/ops/bmm_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <c10/util/Exception.h>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

// What ATen's GEMMs compute a product of this element type in: 8-bit floats and booleans have none.
at::ScalarType computed_type(at::ScalarType result) {
  if (c10::isFloat8Type(result)) return at::kFloat;
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

void matmul(const LibraryCall& call) {
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

const LibraryRegistration kMatmul("matmul", &matmul);
const LibraryRegistration kAddmm("addmm", &addmm);

}  // namespace
}  // namespace neuron::torch_face

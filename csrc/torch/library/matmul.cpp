// "matmul" [out, lhs, rhs] and "addmm" [out, bias, lhs, rhs] floats [beta, alpha]: matrices, or batches of them, with any strides.
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>
#include <c10/util/Exception.h>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

// What ATen's GEMMs compute a product of this element type in: 8-bit floats and booleans have none.
at::ScalarType computed_type(at::ScalarType result) {
  if (c10::isFloat8Type(result)) return at::kFloat;
  return result == at::kBool ? at::kInt : result;
}

void require_rank(const at::Tensor& out) {
  TORCH_CHECK(out.dim() == 2 || out.dim() == 3, "matmul: the result has rank ", out.dim(), ", allowed are 2 and 3");
}

// Computes into `out`, or into a temporary of the computed type that is then converted.
template <typename Compute>
void compute_into(at::Tensor out, Compute compute) {
  const at::ScalarType type = computed_type(out.scalar_type());
  if (type == out.scalar_type()) return compute(out);
  at::Tensor result = out.to(type);
  compute(result);
  out.copy_(result);
}

void matmul(const LibraryCall& call) {
  const Arguments arguments(call);
  require_rank(arguments.tensor(0));
  compute_into(arguments.tensor(0), [&](at::Tensor& out) {
    const at::Tensor lhs = arguments.tensor(1).to(out.scalar_type()), rhs = arguments.tensor(2).to(out.scalar_type());
    out.dim() == 2 ? at::mm_out(out, lhs, rhs) : at::bmm_out(out, lhs, rhs);
  });
}

void addmm(const LibraryCall& call) {
  const Arguments arguments(call);
  require_rank(arguments.tensor(0));
  const at::Scalar beta = arguments.number(0), alpha = arguments.number(1);
  compute_into(arguments.tensor(0), [&](at::Tensor& out) {
    const at::Tensor bias = arguments.tensor(1).to(out.scalar_type());
    const at::Tensor lhs = arguments.tensor(2).to(out.scalar_type()), rhs = arguments.tensor(3).to(out.scalar_type());
    out.dim() == 2 ? at::addmm_out(out, bias, lhs, rhs, beta, alpha) : at::baddbmm_out(out, bias, lhs, rhs, beta, alpha);
  });
}

const LibraryRegistration kMatmul("matmul", &matmul);
const LibraryRegistration kAddmm("addmm", &addmm);

}  // namespace
}  // namespace neuron::torch_face

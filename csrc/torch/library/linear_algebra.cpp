// Decompositions and solutions of batches of matrices, by LAPACK through ATen. Tensors are results first; ints are flags.
#include <ATen/ops/_linalg_eigh.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/geqrf.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/linalg_eig.h>
#include <ATen/ops/linalg_householder_product.h>
#include <ATen/ops/linalg_ldl_factor_ex.h>
#include <ATen/ops/linalg_ldl_solve.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <ATen/ops/linalg_matrix_exp.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <ATen/ops/lu_unpack.h>
#include <ATen/ops/ormqr.h>

#include <array>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

void cholesky(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor factor = arguments.tensor(0), info = arguments.tensor(1);
  at::linalg_cholesky_ex_out(factor, info, arguments.tensor(2), /*upper=*/arguments.flag(0));
}

void lu_factor(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor lu = arguments.tensor(0), pivots = arguments.tensor(1), info = arguments.tensor(2);
  at::linalg_lu_factor_ex_out(lu, pivots, info, arguments.tensor(3), /*pivot=*/arguments.flag(0));
}

void lu_unpack(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor permutation = arguments.tensor(0), lower = arguments.tensor(1), upper = arguments.tensor(2);
  at::lu_unpack_out(permutation, lower, upper, arguments.tensor(3), arguments.tensor(4));
}

void lu_solve(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  at::linalg_lu_solve_out(out, arguments.tensor(1), arguments.tensor(2), arguments.tensor(3), /*left=*/arguments.flag(0),
                          /*adjoint=*/arguments.flag(1));
  // ATen leaves the conjugate of a solution from the right, and marks its tensor so.
  if (out.is_conj()) arguments.tensor(0).conj_physical_();
}

void triangular_solve(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  at::linalg_solve_triangular_out(out, arguments.tensor(1), arguments.tensor(2), /*upper=*/arguments.flag(0), /*left=*/arguments.flag(1),
                                  /*unitriangular=*/arguments.flag(2));
}

void qr(const LibraryCall& call) {
  static constexpr std::array<const char*, 3> kModes = {"reduced", "complete", "r"};
  const Arguments arguments(call);
  at::Tensor q = arguments.tensor(0), r = arguments.tensor(1);
  at::linalg_qr_out(q, r, arguments.tensor(2), kModes.at(arguments.integer(0)));
}

void eigh(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor values = arguments.tensor(0), vectors = arguments.tensor(1);
  at::_linalg_eigh_out(values, vectors, arguments.tensor(2), arguments.flag(0) ? "U" : "L", /*compute_v=*/arguments.flag(1));
}

void eig(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor values = arguments.tensor(0), vectors = arguments.tensor(1);
  at::linalg_eig_out(values, vectors, arguments.tensor(2));
}

void svd(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor u = arguments.tensor(0), values = arguments.tensor(1), vh = arguments.tensor(2);
  at::_linalg_svd_out(u, values, vh, arguments.tensor(3), /*full_matrices=*/arguments.flag(0), /*compute_uv=*/arguments.flag(1));
}

void geqrf(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor reflectors = arguments.tensor(0), tau = arguments.tensor(1);
  at::geqrf_out(reflectors, tau, arguments.tensor(2));
}

void householder_product(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  at::linalg_householder_product_out(out, arguments.tensor(1), arguments.tensor(2));
}

void householder_multiply(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  at::ormqr_out(out, arguments.tensor(1), arguments.tensor(2), arguments.tensor(3), /*left=*/arguments.flag(0),
                /*transpose=*/arguments.flag(1));
}

void ldl_factor(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor factors = arguments.tensor(0), pivots = arguments.tensor(1), info = arguments.tensor(2);
  at::linalg_ldl_factor_ex_out(factors, pivots, info, arguments.tensor(3), /*hermitian=*/arguments.flag(0));
}

void ldl_solve(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  at::linalg_ldl_solve_out(out, arguments.tensor(1), arguments.tensor(2), arguments.tensor(3), /*hermitian=*/arguments.flag(0));
}

void matrix_exponential(const LibraryCall& call) {
  const Arguments arguments(call);
  arguments.tensor(0).copy_(at::linalg_matrix_exp(arguments.tensor(1)));
}

const LibraryRegistration kCholesky("cholesky", &cholesky);
const LibraryRegistration kLuFactor("lu_factor", &lu_factor);
const LibraryRegistration kLuUnpack("lu_unpack", &lu_unpack);
const LibraryRegistration kLuSolve("lu_solve", &lu_solve);
const LibraryRegistration kTriangularSolve("triangular_solve", &triangular_solve);
const LibraryRegistration kQr("qr", &qr);
const LibraryRegistration kEigh("eigh", &eigh);
const LibraryRegistration kEig("eig", &eig);
const LibraryRegistration kSvd("svd", &svd);
const LibraryRegistration kGeqrf("geqrf", &geqrf);
const LibraryRegistration kHouseholderProduct("householder_product", &householder_product);
const LibraryRegistration kHouseholderMultiply("householder_multiply", &householder_multiply);
const LibraryRegistration kLdlFactor("ldl_factor", &ldl_factor);
const LibraryRegistration kLdlSolve("ldl_solve", &ldl_solve);
const LibraryRegistration kMatrixExponential("matrix_exponential", &matrix_exponential);

}  // namespace
}  // namespace neuron::torch_face

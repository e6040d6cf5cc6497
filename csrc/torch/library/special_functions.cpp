// Elementwise functions that ATen has and the compiler has no code for: [out, x], [out, x, y] or [out, x, y, z], all of one
// dtype.
#include <ATen/ops/_dirichlet_grad.h>
#include <ATen/ops/_standard_gamma_grad.h>
#include <ATen/ops/gcd.h>
#include <ATen/ops/i0.h>
#include <ATen/ops/igamma.h>
#include <ATen/ops/igammac.h>
#include <ATen/ops/lcm.h>
#include <ATen/ops/special_airy_ai.h>
#include <ATen/ops/special_bessel_j0.h>
#include <ATen/ops/special_bessel_j1.h>
#include <ATen/ops/special_bessel_y0.h>
#include <ATen/ops/special_bessel_y1.h>
#include <ATen/ops/special_chebyshev_polynomial_t.h>
#include <ATen/ops/special_chebyshev_polynomial_u.h>
#include <ATen/ops/special_chebyshev_polynomial_v.h>
#include <ATen/ops/special_chebyshev_polynomial_w.h>
#include <ATen/ops/special_erfcx.h>
#include <ATen/ops/special_hermite_polynomial_h.h>
#include <ATen/ops/special_hermite_polynomial_he.h>
#include <ATen/ops/special_i0e.h>
#include <ATen/ops/special_i1.h>
#include <ATen/ops/special_i1e.h>
#include <ATen/ops/special_laguerre_polynomial_l.h>
#include <ATen/ops/special_legendre_polynomial_p.h>
#include <ATen/ops/special_modified_bessel_i0.h>
#include <ATen/ops/special_modified_bessel_i1.h>
#include <ATen/ops/special_modified_bessel_k0.h>
#include <ATen/ops/special_modified_bessel_k1.h>
#include <ATen/ops/special_scaled_modified_bessel_k0.h>
#include <ATen/ops/special_scaled_modified_bessel_k1.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_t.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_u.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_v.h>
#include <ATen/ops/special_shifted_chebyshev_polynomial_w.h>
#include <ATen/ops/special_spherical_bessel_j0.h>
#include <ATen/ops/special_zeta.h>

#include <array>

#include "torch/library/tensors.h"

namespace neuron::torch_face {
namespace {

using Unary = at::Tensor& (*)(at::Tensor&, const at::Tensor&);
using Binary = at::Tensor& (*)(at::Tensor&, const at::Tensor&, const at::Tensor&);
using Ternary = at::Tensor& (*)(at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&);

template <Unary function>
void unary(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  function(out, arguments.tensor(1));
}

template <Binary function>
void binary(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  function(out, arguments.tensor(1), arguments.tensor(2));
}

template <Ternary function>
void ternary(const LibraryCall& call) {
  const Arguments arguments(call);
  at::Tensor out = arguments.tensor(0);
  function(out, arguments.tensor(1), arguments.tensor(2), arguments.tensor(3));
}

const std::array kUnary = {
    LibraryRegistration("airy_ai", &unary<&at::special_airy_ai_out>),
    LibraryRegistration("bessel_j0", &unary<&at::special_bessel_j0_out>),
    LibraryRegistration("bessel_j1", &unary<&at::special_bessel_j1_out>),
    LibraryRegistration("bessel_y0", &unary<&at::special_bessel_y0_out>),
    LibraryRegistration("bessel_y1", &unary<&at::special_bessel_y1_out>),
    LibraryRegistration("erfcx", &unary<&at::special_erfcx_out>),
    LibraryRegistration("i0", &unary<&at::i0_out>),
    LibraryRegistration("i0e", &unary<&at::special_i0e_out>),
    LibraryRegistration("i1", &unary<&at::special_i1_out>),
    LibraryRegistration("i1e", &unary<&at::special_i1e_out>),
    LibraryRegistration("modified_bessel_i0", &unary<&at::special_modified_bessel_i0_out>),
    LibraryRegistration("modified_bessel_i1", &unary<&at::special_modified_bessel_i1_out>),
    LibraryRegistration("modified_bessel_k0", &unary<&at::special_modified_bessel_k0_out>),
    LibraryRegistration("modified_bessel_k1", &unary<&at::special_modified_bessel_k1_out>),
    LibraryRegistration("scaled_modified_bessel_k0", &unary<&at::special_scaled_modified_bessel_k0_out>),
    LibraryRegistration("scaled_modified_bessel_k1", &unary<&at::special_scaled_modified_bessel_k1_out>),
    LibraryRegistration("spherical_bessel_j0", &unary<&at::special_spherical_bessel_j0_out>),
};

const std::array kBinary = {
    LibraryRegistration("chebyshev_polynomial_t", &binary<&at::special_chebyshev_polynomial_t_out>),
    LibraryRegistration("chebyshev_polynomial_u", &binary<&at::special_chebyshev_polynomial_u_out>),
    LibraryRegistration("chebyshev_polynomial_v", &binary<&at::special_chebyshev_polynomial_v_out>),
    LibraryRegistration("chebyshev_polynomial_w", &binary<&at::special_chebyshev_polynomial_w_out>),
    LibraryRegistration("hermite_polynomial_h", &binary<&at::special_hermite_polynomial_h_out>),
    LibraryRegistration("hermite_polynomial_he", &binary<&at::special_hermite_polynomial_he_out>),
    LibraryRegistration("laguerre_polynomial_l", &binary<&at::special_laguerre_polynomial_l_out>),
    LibraryRegistration("legendre_polynomial_p", &binary<&at::special_legendre_polynomial_p_out>),
    LibraryRegistration("shifted_chebyshev_polynomial_t", &binary<&at::special_shifted_chebyshev_polynomial_t_out>),
    LibraryRegistration("shifted_chebyshev_polynomial_u", &binary<&at::special_shifted_chebyshev_polynomial_u_out>),
    LibraryRegistration("shifted_chebyshev_polynomial_v", &binary<&at::special_shifted_chebyshev_polynomial_v_out>),
    LibraryRegistration("shifted_chebyshev_polynomial_w", &binary<&at::special_shifted_chebyshev_polynomial_w_out>),
    LibraryRegistration("gammainc", &binary<&at::igamma_out>),
    LibraryRegistration("gammaincc", &binary<&at::igammac_out>),
    LibraryRegistration("standard_gamma_grad", &binary<&at::_standard_gamma_grad_out>),
    LibraryRegistration("zeta", &binary<&at::special_zeta_out>),
    LibraryRegistration("gcd", &binary<&at::gcd_out>),
    LibraryRegistration("lcm", &binary<&at::lcm_out>),
};

const LibraryRegistration kDirichletGradient("dirichlet_grad", &ternary<&at::_dirichlet_grad_out>);

}  // namespace
}  // namespace neuron::torch_face

"""The op table: every operation and composite of the IR, once.

``OPS[name]`` and ``COMPOSITES[name]`` give operands, attributes, shape rule and meaning; builder, verifier, printer and documentation
read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from . import composite_rules, library_rules, shape_rules
from .shape_rules import ANY, BITS, FLOAT, INTEGER, NUMBER, REAL, REAL_FLOAT, Rule, elementwise, predicate
from .types import TensorType


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row of the op table.

    ``operands`` are names in order; ``*name`` stands for any number, ``name?`` may be absent. ``defaults`` are the attributes that a caller
    may leave out.
    """

    name: str
    operands: tuple[str, ...]
    attributes: tuple[str, ...]
    rule: Rule
    meaning: str
    defaults: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    min_arity: int = field(init=False)
    # None: any number.
    max_arity: int | None = field(init=False)

    def __post_init__(self) -> None:
        any_number = any(name.startswith("*") for name in self.operands)
        object.__setattr__(self, "min_arity", sum(not name.startswith("*") and not name.endswith("?") for name in self.operands))
        object.__setattr__(self, "max_arity", None if any_number else len(self.operands))


def find_spec(name: str, attributes: Mapping[str, Any]) -> OpSpec:
    """The row of an operation; for ``composite`` that of the composite it names. ValueError if there is none."""
    table, key = (COMPOSITES, attributes.get("name")) if name == "composite" else (OPS, name)
    if key not in table:
        what = "composite" if name == "composite" else "operation"
        raise ValueError(f"unknown {what} {key!r}; known are {', '.join(sorted(table))}")
    return table[str(key)]


def infer_types(name: str, operands: Sequence[TensorType], attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """The result types of an operation. ValueError that names the op if arity, attributes or types do not fit its row."""
    spec = find_spec(name, attributes)
    own = {key: value for key, value in attributes.items() if key != "name"} if name == "composite" else attributes
    try:
        if len(operands) < spec.min_arity or (spec.max_arity is not None and len(operands) > spec.max_arity):
            raise ValueError(f"got {len(operands)} operands; the operands are ({', '.join(spec.operands)})")
        if own.keys() != set(spec.attributes):
            raise ValueError(f"got the attributes {{{', '.join(sorted(own))}}}; they must be {{{', '.join(sorted(spec.attributes))}}}")
        result = spec.rule(*operands, **own)
    except ValueError as error:
        raise ValueError(f"{spec.name}: {error}") from None
    return (result,) if isinstance(result, TensorType) else result


Row = tuple[str, str, str, Rule, str]


def _table(*rows: Row, defaults: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Mapping[str, OpSpec]:
    specs = {}
    for name, operands, attributes, rule, meaning in rows:
        optional = MappingProxyType(dict(defaults.get(name, {})))
        specs[name] = OpSpec(name, tuple(operands.split()), tuple(attributes.split()), rule, meaning, optional)
    return MappingProxyType(specs)


_GATHER = "offset_dims collapsed_slice_dims start_index_map index_vector_dim slice_sizes fail"
_SCATTER = "kind update_window_dims inserted_window_dims scatter_dims_to_operand_dims index_vector_dim fail"
_CONVOLUTION = "strides padding lhs_dilation rhs_dilation groups"
_GRAD = "strides padding dilation groups transposed output_padding"
_AVG_POOL = "window strides padding ceil_mode count_include_pad divisor"

# fmt: off
OPS: Mapping[str, OpSpec] = _table(
    # Sources
    ("constant", "", "value shape dtype", shape_rules.constant, "a literal; a 0-d value fills the shape"),
    ("iota", "", "shape dtype dim", shape_rules.iota, "the index along dim"),
    # Elementwise, one operand
    ("abs", "x", "", shape_rules.absolute, "absolute value; of a complex number its modulus, a real number"),
    ("negate", "x", "", elementwise(NUMBER), "-x"),
    ("sign", "x", "", elementwise(shape_rules.SIGNED), "-1, ±0, 1 or nan; of a complex number x / |x|"),
    ("floor", "x", "", elementwise(REAL_FLOAT), "toward -inf"),
    ("ceil", "x", "", elementwise(REAL_FLOAT), "toward +inf"),
    ("round_nearest_even", "x", "", elementwise(REAL_FLOAT), "to the nearest integer, ties to even"),
    ("round_nearest_afz", "x", "", elementwise(REAL_FLOAT), "to the nearest integer, ties away from zero"),
    ("exponential", "x", "", elementwise(FLOAT), "e^x"),
    ("exponential_minus_one", "x", "", elementwise(FLOAT), "e^x - 1, exact near 0"),
    ("log", "x", "", elementwise(FLOAT), "natural logarithm"),
    ("log_plus_one", "x", "", elementwise(FLOAT), "log(1 + x), exact near 0"),
    ("logistic", "x", "", elementwise(FLOAT), "1 / (1 + e^-x)"),
    ("tanh", "x", "", elementwise(FLOAT), "hyperbolic tangent"),
    ("sine", "x", "", elementwise(FLOAT), "sine of radians"),
    ("cosine", "x", "", elementwise(FLOAT), "cosine of radians"),
    ("tan", "x", "", elementwise(FLOAT), "tangent of radians"),
    ("sqrt", "x", "", elementwise(FLOAT), "square root, correctly rounded for real types"),
    ("rsqrt", "x", "", elementwise(FLOAT), "1 / sqrt(x)"),
    ("cbrt", "x", "", elementwise(REAL_FLOAT), "real cube root"),
    ("not", "x", "", elementwise(BITS), "bitwise complement; of i1 the logical one"),
    ("popcnt", "x", "", elementwise(INTEGER), "number of set bits"),
    ("count_leading_zeros", "x", "", elementwise(INTEGER), "number of zero bits above the highest set bit"),
    ("is_finite", "x", "", predicate(REAL_FLOAT), "neither infinite nor nan"),
    ("is_nan", "x", "", predicate(REAL_FLOAT), "nan"),
    ("is_inf", "x", "", predicate(REAL_FLOAT), "infinite of either sign"),
    ("real", "x", "", shape_rules.complex_part, "real part"),
    ("imag", "x", "", shape_rules.complex_part, "imaginary part"),
    ("erf", "x", "", elementwise(REAL_FLOAT), "error function"),
    ("erfc", "x", "", elementwise(REAL_FLOAT), "1 - erf(x), exact for large x"),
    ("erf_inv", "x", "", elementwise(REAL_FLOAT), "inverse of erf"),
    ("lgamma", "x", "", elementwise(REAL_FLOAT), "log |gamma(x)|"),
    ("digamma", "x", "", elementwise(REAL_FLOAT), "derivative of log gamma(x)"),
    ("asin", "x", "", elementwise(FLOAT), "inverse sine"),
    ("acos", "x", "", elementwise(FLOAT), "inverse cosine"),
    ("atan", "x", "", elementwise(FLOAT), "inverse tangent"),
    ("sinh", "x", "", elementwise(FLOAT), "hyperbolic sine"),
    ("cosh", "x", "", elementwise(FLOAT), "hyperbolic cosine"),
    ("asinh", "x", "", elementwise(FLOAT), "inverse hyperbolic sine"),
    ("acosh", "x", "", elementwise(FLOAT), "inverse hyperbolic cosine"),
    ("atanh", "x", "", elementwise(FLOAT), "inverse hyperbolic tangent"),
    (
        "convert", "x", "dtype", shape_rules.convert,
        "value conversion, to a type narrower than f32 through f32; float → integer truncates (out of range and nan: unspecified); "
        "→ i1 is x != 0; complex → real takes the real part; real → complex has zero imaginary part",
    ),
    ("bitcast_convert", "x", "dtype", shape_rules.bitcast_convert, "the same bits as another real type of the same size"),
    # Elementwise, two operands
    ("add", "lhs rhs", "", elementwise(ANY), "sum; integers wrap; of i1: or"),
    ("subtract", "lhs rhs", "", elementwise(NUMBER), "difference; integers wrap"),
    ("multiply", "lhs rhs", "", elementwise(ANY), "product; integers wrap; of i1: and"),
    ("divide", "lhs rhs", "", elementwise(NUMBER), "quotient; of integers truncated, by zero -1 (all bits set)"),
    ("remainder", "lhs rhs", "", elementwise("iuf"), "C's % and fmod: the sign of lhs; of integers by zero: lhs"),
    ("power", "lhs rhs", "", elementwise(NUMBER), "lhs^rhs; integers wrap, and a negative exponent gives 0, or ±1 for a base of ±1"),
    ("atan2", "lhs rhs", "", elementwise(REAL_FLOAT), "angle of the point (rhs, lhs)"),
    ("maximum", "lhs rhs", "", elementwise(REAL), "the larger; nan if either is; of i1: or"),
    ("minimum", "lhs rhs", "", elementwise(REAL), "the smaller; nan if either is; of i1: and"),
    ("and", "lhs rhs", "", elementwise(BITS), "bitwise and"),
    ("or", "lhs rhs", "", elementwise(BITS), "bitwise or"),
    ("xor", "lhs rhs", "", elementwise(BITS), "bitwise exclusive or"),
    ("shift_left", "lhs rhs", "", elementwise(INTEGER), "lhs × 2^rhs; 0 if rhs (unsigned) is the width or more"),
    ("shift_right_arithmetic", "lhs rhs", "", elementwise(INTEGER), "shift that copies the top bit; rhs (unsigned) saturates"),
    ("shift_right_logical", "lhs rhs", "", elementwise(INTEGER), "shift that fills with zeros; 0 if rhs (unsigned) is the width or more"),
    ("complex", "real imag", "", shape_rules.complex_of_parts, "complex number of two parts"),
    ("compare", "lhs rhs", "direction", shape_rules.order_or_equality, "EQ NE LT LE GT GE; with nan all but NE are false; complex: EQ NE"),
    # Elementwise, three operands
    ("select", "pred on_true on_false", "", shape_rules.select, "on_true where pred, else on_false"),
    ("clamp", "lo x hi", "", elementwise(REAL), "minimum(maximum(x, lo), hi)"),
    # Layout
    (
        "broadcast_in_dim", "x", "shape dims", shape_rules.broadcast_in_dim,
        "operand dimension i becomes result dimension dims[i]; extent 1 is repeated",
    ),
    ("reshape", "x", "shape", shape_rules.reshape, "the same elements in row-major order"),
    ("transpose", "x", "permutation", shape_rules.transpose, "result dimension i is operand dimension permutation[i]"),
    ("reverse", "x", "dims", shape_rules.reverse, "order reversed along dims"),
    ("slice", "x", "start limit strides", shape_rules.slice_, "x[start:limit:strides]"),
    ("pad", "x value", "low high interior", shape_rules.pad, "value added before, after and between elements; negative low and high crop"),
    ("concatenate", "first *others", "dim", shape_rules.concatenate, "joined along dim"),
    ("dynamic_slice", "x *starts", "sizes", shape_rules.dynamic_slice, "a block of the given sizes at starts, which clamp so that it fits"),
    ("dynamic_update_slice", "x update *starts", "", shape_rules.dynamic_update_slice, "x with the block at starts replaced; starts clamp"),
    # Reductions
    (
        "reduce", "x", "kind dims", shape_rules.reduce,
        "add multiply maximum minimum and or over dims; of nothing: the identity; types narrower than f32 accumulate in f32",
    ),
    ("argreduce", "x", "kind dim", shape_rules.argreduce, "index of the first maximum or minimum; nan precedes all"),
    (
        "reduce_window", "x", "kind window strides padding dilation", shape_rules.reduce_window,
        "reduce over every window; padding holds the identity",
    ),
    # Contractions
    (
        "dot_general", "lhs rhs", "lhs_batch rhs_batch lhs_contract rhs_contract dtype", shape_rules.dot_general,
        "sums of products: batch, free lhs, free rhs dimensions; types narrower than f32 accumulate in f32",
    ),
    ("convolution", "x weight", _CONVOLUTION, shape_rules.convolution, "cross-correlation; x NC<spatial>, weight OI<spatial>"),
    # Indexing
    (
        "gather", "operand indices", _GATHER, shape_rules.gather,
        "slices at indices, which clamp; with fail an index outside fails the launch with that text",
    ),
    (
        "scatter", "operand indices updates", _SCATTER, shape_rules.scatter,
        "updates combined into operand in row-major order; a window that is not inside is dropped, with fail it fails the launch",
    ),
    # Composites
    ("composite", "*operands", "name", lambda *operands, **attributes: (), "the composite of that name"),
)

COMPOSITES: Mapping[str, OpSpec] = _table(
    (
        "attention", "q k v mask?", "causal scale", composite_rules.attention,
        "softmax(scale · q kᵀ + mask) v → (out, logsumexp); q [B,H,L,D], k [B,Hkv,S,D], v [B,Hkv,S,Dv]; "
        "H / Hkv query heads share a key head; "
        "an i1 mask keeps where true; causal keeps column ≤ row; a row without any kept column is 0 with logsumexp -inf",
    ),
    (
        "attention_backward", "dout q k v out logsumexp mask?", "causal scale", composite_rules.attention_backward,
        "gradients (dq, dk, dv) of attention",
    ),
    (
        "convolution_input_grad", "dout weight", _GRAD + " input_shape", composite_rules.convolution_input_grad,
        "gradient of PyTorch's convolution by its input; all spatial attributes are one int per dimension",
    ),
    (
        "convolution_weight_grad", "dout input", _GRAD + " weight_shape", composite_rules.convolution_weight_grad,
        "gradient of PyTorch's convolution by its weight",
    ),
    (
        "max_pool", "x", "window strides padding dilation ceil_mode", composite_rules.max_pool,
        "(values, indices) of x [N, C, spatial...]; indices are flat in the spatial plane; "
        "the first maximum wins, but the last nan if there is one",
    ),
    ("max_pool_backward", "dout indices", "input_shape", composite_rules.max_pool_backward, "dout added at the indices of max_pool"),
    (
        "avg_pool", "x", _AVG_POOL, composite_rules.avg_pool,
        "window sums of x [N, C, spatial...] divided by divisor, or by the number of elements (with padding if count_include_pad)",
    ),
    ("avg_pool_backward", "dout", _AVG_POOL + " input_shape", composite_rules.avg_pool_backward, "gradient of avg_pool"),
    (
        "ctc_loss", "log_probs targets input_lengths target_lengths", "blank", composite_rules.ctc_loss,
        "(negative log likelihood [B], log alpha [B,T,2S+1]) of log_probs [T,B,C] and targets i64[B,S]; "
        "log alpha is defined up to a target's length",
    ),
    (
        "ctc_loss_backward", "grad log_probs targets input_lengths target_lengths loss log_alpha", "blank zero_infinity",
        composite_rules.ctc_loss_backward, "gradient of ctc_loss by what log_probs is the log softmax of",
    ),
    ("sort", "x", "dim descending stable", composite_rules.sort, "(values, indices i64); nan is the largest; always stable"),
    ("topk", "x", "k dim largest", composite_rules.topk, "(values, indices i64) of the k first in sorted order"),
    ("scan", "x", "kind dim", composite_rules.scan, "inclusive cumulative add multiply maximum minimum along dim"),
    (
        "philox", "seed offset", "count", composite_rules.philox,
        "ui32[count] of Philox4x32-10 with key = seed and counters (offset + c, 0), c < m = ceil(count / 4); "
        "word w of counter c is element w · m + c",
    ),
    (
        "cholesky", "x", "upper", library_rules.cholesky,
        "(factor, info i32) of a Hermitian positive definite matrix; info is the order of the first leading minor that is not, or 0",
    ),
    ("lu_factor", "x", "pivot", library_rules.lu_factor, "(L and U in one, pivots i32 as LAPACK counts, info i32) of P L U"),
    ("lu_unpack", "lu pivots", "", library_rules.lu_unpack, "(P, L, U) of lu_factor"),
    (
        "lu_solve", "lu pivots rhs", "left adjoint", library_rules.lu_solve,
        "X of A X = rhs (X A = rhs if not left); with the adjoint of A if adjoint",
    ),
    (
        "triangular_solve", "a rhs", "upper left unit_diagonal", library_rules.triangular_solve,
        "X of A X = rhs (X A = rhs if not left); only one triangle of A is read",
    ),
    ("qr", "x", "mode", library_rules.qr, "(Q, R); mode reduced, complete, or r, in which Q is empty"),
    (
        "eigh", "x", "upper vectors", library_rules.eigh,
        "(eigenvalues, ascending; eigenvectors, empty if not vectors) of Hermitian matrices",
    ),
    ("eig", "x", "", library_rules.eig, "(eigenvalues, eigenvectors), complex"),
    ("svd", "x", "full vectors", library_rules.svd, "(U, S, Vh); U and Vh are empty if not vectors, square if full"),
    ("geqrf", "x", "", library_rules.geqrf, "(reflectors and R in one, tau) of a QR decomposition"),
    ("householder_product", "reflectors tau", "", library_rules.householder_product, "the first columns of the product of the reflectors"),
    (
        "householder_multiply", "reflectors tau other", "left transpose", library_rules.householder_multiply,
        "Q other (other Q if not left); the adjoint of Q if transpose",
    ),
    ("ldl_factor", "x", "hermitian", library_rules.ldl_factor, "(L and D in one, pivots i32, info i32) of a symmetric or Hermitian matrix"),
    ("ldl_solve", "factors pivots rhs", "hermitian", library_rules.ldl_solve, "X of A X = rhs from ldl_factor"),
    ("matrix_exponential", "x", "", library_rules.matrix_exponential, "e to the power of a matrix"),
    (
        "grouped_matmul", "lhs rhs ends", "", library_rules.grouped_matmul,
        "a product of matrices per group; group g is the part from ends[g - 1] (or 0) to ends[g] of the rows of lhs [M, K] with "
        "rhs [G, K, N], of the columns of rhs [K, N] with lhs [G, M, K], or of the inner dimension of both; what no group has is 0",
    ),
    (
        "fft", "x", "kind length", library_rules.fft,
        "discrete Fourier transform along the last dimensions, as many as length has; kind FFT, IFFT (divided by the length), RFFT "
        "(of real numbers, half of the last dimension), IRFFT (its inverse)",
    ),
    (
        "special_function", "x y? z?", "function", library_rules.special_function,
        "a function of torch.special by its name; gammainc, gammaincc; gcd, lcm of integers; the derivatives of gamma and Dirichlet "
        "variates by their parameters",
    ),
    (
        "random_variate", "seed offset x y?", "distribution start", library_rules.random_variate,
        "numbers of the distribution with these parameters, independent of each other and of all draws for another offset + start; which, "
        "is the target's",
    ),
    defaults={"max_pool": {"ceil_mode": False}},
)
# fmt: on

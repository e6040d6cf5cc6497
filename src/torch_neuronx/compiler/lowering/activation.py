"""Activation functions and their derivatives. Formulas are those of torch.nn.functional's documentation."""

from __future__ import annotations

import math

from ..hlo.ir import Value
from .context import LoweringBuilder
from .pointwise import pointwise
from .precision import widened
from .registry import lowering

# Constants of the tanh approximation of GELU (Hendrycks & Gimpel, 2016).
_GELU_SCALE = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


@pointwise("aten::relu")
def relu(b: LoweringBuilder, x: Value) -> Value:
    return b.maximum(x, b.like(0, x))


@pointwise("aten::threshold")
def threshold(b: LoweringBuilder, x: Value, limit: Value, value: Value) -> Value:
    return b.select(b.compare(x, limit, "LE"), value, x)


@pointwise("aten::threshold_backward")
def threshold_backward(b: LoweringBuilder, grad: Value, x: Value, limit: Value) -> Value:
    return b.select(b.compare(x, limit, "LE"), b.like(0, grad), grad)


@pointwise("aten::gelu")
def gelu_lowering(b: LoweringBuilder, x: Value, approximate: str) -> Value:
    return b.multiply(x, b.logistic(_gelu_argument(b, x))) if approximate == "tanh" else gelu(b, x)


def gelu(b: LoweringBuilder, x: Value) -> Value:
    """x times the normal distribution function at x."""
    half, one = b.like(0.5, x), b.like(1, x)
    return b.multiply(b.multiply(half, x), b.add(one, b.erf(b.multiply(x, b.like(math.sqrt(0.5), x)))))


@pointwise("aten::gelu_backward")
def gelu_backward(b: LoweringBuilder, grad: Value, x: Value, approximate: str) -> Value:
    half, one = b.like(0.5, x), b.like(1, x)
    if approximate == "tanh":
        distribution = b.logistic(_gelu_argument(b, x))
        squared = b.multiply(x, x)
        slope = b.multiply(b.like(2 * _GELU_SCALE, x), b.add(one, b.multiply(b.like(3 * _GELU_CUBIC, x), squared)))
        density = b.multiply(b.multiply(distribution, b.subtract(one, distribution)), slope)
        return b.multiply(grad, b.add(distribution, b.multiply(x, density)))
    distribution = b.multiply(half, b.add(one, b.erf(b.multiply(x, b.like(math.sqrt(0.5), x)))))
    density = b.multiply(b.exponential(b.multiply(b.like(-0.5, x), b.multiply(x, x))), b.like(1 / math.sqrt(2 * math.pi), x))
    return b.multiply(grad, b.add(distribution, b.multiply(x, density)))


def _gelu_argument(b: LoweringBuilder, x: Value) -> Value:
    """u, where (1 + tanh(u/2)) / 2 = logistic(u) stands for the normal distribution; the latter keeps its digits in the left tail."""
    cubic = b.add(b.like(1, x), b.multiply(b.like(_GELU_CUBIC, x), b.multiply(x, x)))
    return b.multiply(b.multiply(b.like(2 * _GELU_SCALE, x), x), cubic)


@pointwise("aten::silu")
def silu(b: LoweringBuilder, x: Value) -> Value:
    return b.multiply(x, b.logistic(x))


@pointwise("aten::silu_backward")
def silu_backward(b: LoweringBuilder, grad: Value, x: Value) -> Value:
    sigmoid, one = b.logistic(x), b.like(1, x)
    return b.multiply(b.multiply(grad, sigmoid), b.add(one, b.multiply(x, b.subtract(one, sigmoid))))


@pointwise("aten::mish")
def mish(b: LoweringBuilder, x: Value) -> Value:
    return b.multiply(x, b.tanh(b.log_plus_one(b.exponential(x))))


@pointwise("aten::mish_backward")
def mish_backward(b: LoweringBuilder, grad: Value, x: Value) -> Value:
    sigmoid, one = b.logistic(x), b.like(1, x)
    tanh = b.tanh(b.log_plus_one(b.exponential(x)))
    return b.multiply(grad, b.add(tanh, b.multiply(b.multiply(x, sigmoid), b.subtract(one, b.multiply(tanh, tanh)))))


@pointwise("aten::sigmoid_backward")
def sigmoid_backward(b: LoweringBuilder, grad: Value, y: Value) -> Value:
    return b.multiply(grad, b.multiply(b.subtract(b.like(1, y), conjugate(b, y)), conjugate(b, y)))


@pointwise("aten::tanh_backward")
def tanh_backward(b: LoweringBuilder, grad: Value, y: Value) -> Value:
    """grad (1 - y^2), factored so that it keeps its digits near y = 1."""
    one, y = b.like(1, y), conjugate(b, y)
    return b.multiply(grad, b.multiply(b.subtract(one, y), b.add(one, y)))


def conjugate(b: LoweringBuilder, x: Value) -> Value:
    return b.complex(b.real(x), b.negate(b.imag(x))) if x.dtype.is_complex else x


@pointwise("aten::logit_backward")
def logit_backward(b: LoweringBuilder, grad: Value, x: Value, eps: float | None) -> Value:
    low, high = (0.0, 1.0) if eps is None else (eps, 1 - eps)
    outside = b.or_(b.compare(x, b.like(low, x), "LT"), b.compare(x, b.like(high, x), "GT"))
    slope = b.divide(grad, b.multiply(x, b.subtract(b.like(1, x), x)))
    return b.select(outside, b.like(math.nan if eps is None else 0.0, x), slope)


@pointwise("aten::leaky_relu")
def leaky_relu(b: LoweringBuilder, x: Value, slope: Value) -> Value:
    return b.select(b.compare(x, b.like(0, x), "GT"), x, b.multiply(x, slope))


@pointwise("aten::leaky_relu_backward")
def leaky_relu_backward(b: LoweringBuilder, grad: Value, x: Value, slope: Value, self_is_result: bool) -> Value:
    return b.select(b.compare(x, b.like(0, x), "GT"), grad, b.multiply(grad, slope))


@pointwise("aten::_prelu_kernel")
def prelu(b: LoweringBuilder, x: Value, weight: Value) -> Value:
    return leaky_relu(b, x, weight)


@pointwise("aten::_prelu_kernel_backward")
def prelu_backward(b: LoweringBuilder, grad: Value, x: Value, weight: Value) -> tuple[Value, Value]:
    positive = b.compare(x, b.like(0, x), "GT")
    return b.select(positive, grad, b.multiply(weight, grad)), b.select(positive, b.like(0, grad), b.multiply(x, grad))


@pointwise("aten::elu")
def elu(b: LoweringBuilder, x: Value, alpha: Value, scale: Value, input_scale: Value) -> Value:
    negative = b.multiply(b.multiply(b.exponential_minus_one(b.multiply(x, input_scale)), alpha), scale)
    return b.select(b.compare(x, b.like(0, x), "LE"), negative, b.multiply(x, scale))


@pointwise("aten::elu_backward")
def elu_backward(b: LoweringBuilder, grad: Value, alpha: Value, scale: Value, input_scale: Value, is_result: bool, x: Value) -> Value:
    """``x`` is the function's result if ``is_result``, else its input."""
    gain = b.multiply(alpha, scale)
    growth = b.add(x, gain) if is_result else b.multiply(gain, b.exponential(b.multiply(x, input_scale)))
    negative = b.multiply(b.multiply(grad, input_scale), growth)
    return b.select(b.compare(x, b.like(0, x), "GT"), b.multiply(grad, scale), negative)


@pointwise("aten::celu")
def celu(b: LoweringBuilder, x: Value, alpha: Value) -> Value:
    return elu(b, x, alpha, b.like(1, x), b.divide(b.like(1, alpha), alpha))


@pointwise("aten::softplus")
def softplus(b: LoweringBuilder, x: Value, beta: Value, limit: Value) -> Value:
    scaled = b.multiply(x, beta)
    return b.select(b.compare(scaled, limit, "GT"), x, b.divide(b.log_plus_one(b.exponential(scaled)), beta))


@pointwise("aten::softplus_backward")
def softplus_backward(b: LoweringBuilder, grad: Value, x: Value, beta: Value, limit: Value) -> Value:
    scaled = b.multiply(x, beta)
    return b.select(b.compare(scaled, limit, "GT"), grad, b.multiply(grad, b.logistic(scaled)))


@pointwise("aten::hardtanh")
def hardtanh(b: LoweringBuilder, x: Value, low: Value, high: Value) -> Value:
    return b.minimum(b.maximum(x, low), high)


@pointwise("aten::hardtanh_backward")
def hardtanh_backward(b: LoweringBuilder, grad: Value, x: Value, low: Value, high: Value) -> Value:
    outside = b.or_(b.compare(x, low, "LE"), b.compare(x, high, "GE"))
    return b.select(outside, b.like(0, grad), grad)


def _hard_ramp(b: LoweringBuilder, x: Value) -> Value:
    """clamp(x + 3, 0, 6) / 6."""
    shifted = b.add(x, b.like(3, x))
    return b.divide(b.minimum(b.maximum(shifted, b.like(0, x)), b.like(6, x)), b.like(6, x))


@pointwise("aten::hardsigmoid")
def hardsigmoid(b: LoweringBuilder, x: Value) -> Value:
    return _hard_ramp(b, x)


@pointwise("aten::hardsigmoid_backward")
def hardsigmoid_backward(b: LoweringBuilder, grad: Value, x: Value) -> Value:
    inside = b.and_(b.compare(x, b.like(-3, x), "GT"), b.compare(x, b.like(3, x), "LT"))
    return b.select(inside, b.divide(grad, b.like(6, grad)), b.like(0, grad))


@pointwise("aten::hardswish")
def hardswish(b: LoweringBuilder, x: Value) -> Value:
    shifted = b.add(x, b.like(3, x))
    return b.divide(b.multiply(x, b.minimum(b.maximum(shifted, b.like(0, x)), b.like(6, x))), b.like(6, x))


@pointwise("aten::hardswish_backward")
def hardswish_backward(b: LoweringBuilder, grad: Value, x: Value) -> Value:
    middle = b.multiply(grad, b.add(b.divide(x, b.like(3, x)), b.like(0.5, x)))
    upper = b.select(b.compare(x, b.like(3, x), "LT"), middle, grad)
    return b.select(b.compare(x, b.like(-3, x), "LE"), b.like(0, grad), upper)


@pointwise("aten::hardshrink")
def hardshrink(b: LoweringBuilder, x: Value, limit: Value) -> Value:
    return b.select(_is_within(b, x, limit), b.like(0, x), x)


@pointwise("aten::softshrink")
def softshrink(b: LoweringBuilder, x: Value, limit: Value) -> Value:
    """Moves x toward 0 by the limit; nan stays nan."""
    moved = b.select(b.compare(x, limit, "GT"), b.subtract(x, limit), b.add(x, limit))
    return b.select(_is_within(b, x, limit), b.like(0, x), b.select(b.is_nan(x), x, moved))


@pointwise("aten::hardshrink_backward", "aten::softshrink_backward")
def shrink_backward(b: LoweringBuilder, grad: Value, x: Value, limit: Value) -> Value:
    return b.select(_is_within(b, x, limit), b.like(0, grad), grad)


def _is_within(b: LoweringBuilder, x: Value, limit: Value) -> Value:
    return b.and_(b.compare(x, b.negate(limit), "GE"), b.compare(x, limit, "LE"))


@pointwise("aten::log_sigmoid_forward")
def log_sigmoid(b: LoweringBuilder, x: Value) -> tuple[Value, Value]:
    """And e^-|x|, which the derivative uses."""
    decay = b.exponential(b.negate(b.abs(x)))
    return b.subtract(b.minimum(x, b.like(0, x)), b.log_plus_one(decay)), decay


@pointwise("aten::log_sigmoid_backward", keep=("buffer",))
def log_sigmoid_backward(b: LoweringBuilder, grad: Value, x: Value, buffer: Value) -> Value:
    return b.multiply(grad, b.logistic(b.negate(x)))


def _halves(b: LoweringBuilder, x: Value, dim: int) -> tuple[Value, Value]:
    axis = dim % len(x.shape)
    middle = x.shape[axis] // 2
    start = [middle if i == axis else 0 for i in range(len(x.shape))]
    limit = [middle if i == axis else extent for i, extent in enumerate(x.shape)]
    return b.slice(x, [0] * len(x.shape), limit), b.slice(x, start, x.shape)


@lowering("aten::glu_jvp", outputs_like=("glu",))
def glu_jvp(b: LoweringBuilder, glu: Value, x: Value, dx: Value, dim: int) -> Value:
    """Of a · s(g) in the direction (da, dg): s da + a s (1 - s) dg."""
    _, gate = _halves(b, widened(b, x), dim)
    along, along_gate = _halves(b, widened(b, dx), dim)
    opening = b.logistic(gate)
    closing = b.subtract(b.like(1, opening), opening)
    return b.add(b.multiply(opening, along), b.multiply(b.multiply(widened(b, glu), closing), along_gate))


@lowering("aten::glu_backward_jvp", outputs_like=("grad_x",))
def glu_backward_jvp(b: LoweringBuilder, grad_x: Value, grad_glu: Value, x: Value, dgrad_glu: Value, dx: Value, dim: int) -> Value:
    """Of (h s, h a s') with s' = s (1 - s), the gradient h of a · s(g): both change with h, a and g."""
    linear, gate = _halves(b, widened(b, x), dim)
    along, along_gate = _halves(b, widened(b, dx), dim)
    grad, dgrad = widened(b, grad_glu), widened(b, dgrad_glu)
    opening = b.logistic(gate)
    slope = b.multiply(opening, b.subtract(b.like(1, opening), opening))
    curvature = b.multiply(slope, b.subtract(b.like(1, opening), b.multiply(b.like(2, opening), opening)))
    first = b.add(b.multiply(dgrad, opening), b.multiply(b.multiply(grad, slope), along_gate))
    moved = b.add(b.multiply(dgrad, linear), b.multiply(grad, along))
    second = b.add(b.multiply(moved, slope), b.multiply(b.multiply(grad, linear), b.multiply(curvature, along_gate)))
    return b.concatenate([first, second], dim % len(x.shape))

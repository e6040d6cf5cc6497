"""Random numbers from the device's Philox stream. One launch draws a fixed count of words, whatever the thread count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..hlo.ir import Value
from ..hlo.types import DType, TensorType
from .context import LoweringBuilder
from .dtypes import to_dtype
from .precision import widened
from .registry import lowering
from .sorting import sorted_with_indices

# Of a multinomial distribution: float32 tells no more apart.
_MOST_CATEGORIES = 2**24
# Significand bits with the hidden one: how many random bits a uniform number of the dtype takes, so that it never rounds up to 1.
_DIGITS = {DType.F16: 11, DType.BF16: 8, DType.F32: 24, DType.F64: 53}


def uniform_numbers(b: LoweringBuilder, shape: Sequence[int], dtype: DType) -> Value:
    """Uniform in [0, 1) with as many bits as ``dtype`` holds; f32, or f64 for f64."""
    count = math.prod(shape)
    digits = _DIGITS.get(dtype, 24)
    if digits > 32:
        whole = b.shift_right_logical(_words64(b, count), b.constant(64 - digits, DType.UI64, (count,)))
        number = b.cast(whole, DType.F64)
    else:
        word = b.random_bits(count)
        number = b.cast(b.shift_right_logical(word, b.like(32 - digits, word)), DType.F32)
    return b.reshape(b.multiply(number, b.like(2.0**-digits, number)), shape)


def _words64(b: LoweringBuilder, count: int) -> Value:
    words = b.cast(b.random_bits(2 * count), DType.UI64)
    low, high = b.slice(words, (0,), (count,)), b.slice(words, (count,), (2 * count,))
    return b.or_(low, b.shift_left(high, b.like(32, high)))


def positive_uniform_numbers(b: LoweringBuilder, shape: Sequence[int], dtype: DType) -> Value:
    """Uniform in (0, 1], for logarithms."""
    number = uniform_numbers(b, shape, DType.F64 if dtype is DType.F64 else DType.F32)
    return b.subtract(b.like(1, number), number)


def normal_numbers(b: LoweringBuilder, shape: Sequence[int], dtype: DType) -> Value:
    """Standard normal numbers by Box and Muller: a radius and an angle give two of them. f32, or f64 for f64."""
    count = math.prod(shape)
    half = -(-count // 2)
    wide = DType.F64 if dtype is DType.F64 else DType.F32
    radius_word = b.random_bits(2 * half) if wide is DType.F32 else None
    if radius_word is None:
        first, second = positive_uniform_numbers(b, (half,), wide), uniform_numbers(b, (half,), wide)
    else:
        # All 32 bits of the word decide the radius, so that tails reach 6.6 standard deviations.
        words = b.cast(radius_word, DType.F32)
        scaled = b.add(b.multiply(words, b.like(2.0**-32, words)), b.like(2.0**-33, words))
        first, second = b.slice(scaled, (0,), (half,)), b.slice(scaled, (half,), (2 * half,))
    radius = b.sqrt(b.multiply(b.log(first), b.like(-2, first)))
    angle = b.multiply(second, b.like(2 * math.pi, second))
    both = b.concatenate([b.multiply(radius, b.cosine(angle)), b.multiply(radius, b.sine(angle))], 0)
    return b.reshape(b.slice(both, (0,), (count,)), shape)


def _scaled(b: LoweringBuilder, number: Value, factor: float, summand: float) -> Value:
    """factor · number + summand."""
    return b.add(b.multiply(number, b.like(factor, number)), b.like(summand, number))


def require(holds: bool, what: str) -> None:
    """Refuses a call that no distribution has; what is raised in the end is what the CPU raises."""
    if not holds:
        raise ValueError(what)


def require_float(b: LoweringBuilder, argument: str) -> None:
    """Leaves tensors of integers to the CPU, which refuses them."""
    if not b.metas[argument].dtype.is_floating_point:
        raise NotImplementedError(f"{argument} is a tensor of {b.metas[argument].dtype}; the operator is one of floating numbers")


def where_valid(b: LoweringBuilder, number: Value, valid: Value, fail: str) -> Value:
    """``number``, in a launch that fails where it is not ``valid``."""
    place = b.select(valid, b.constant(0, DType.I64, valid.shape), b.constant(-1, DType.I64, valid.shape))
    return b.add(number, b.take(b.constant(0, number.dtype, (1,)), place, 0, fail))


def _between(b: LoweringBuilder, x: Value, low: float, high: float) -> Value:
    return b.and_(b.compare(x, b.like(low, x), "GE"), b.compare(x, b.like(high, x), "LE"))


@lowering("aten::uniform")
def uniform(b: LoweringBuilder, x: Value, low: float, high: float, generator: None) -> Value:
    require_float(b, "self")
    largest = b.finite_limit("self")
    bounds = f"uniform: the bounds are {low} and {high}; they must rise and be at most {largest} apart and from 0"
    require(-largest <= low <= high <= largest and high - low <= largest, bounds)
    return _scaled(b, uniform_numbers(b, x.shape, _result_dtype(b)), high - low, low)


def _result_dtype(b: LoweringBuilder) -> DType:
    """The computed dtype of the tensor that is filled; f64 counts as f32 under the float64 policy."""
    return b.output.dtype


@lowering("aten::rand", "aten::rand.generator", "aten::rand_like", "aten::rand_like.generator")
def rand(b: LoweringBuilder, *arguments: Any) -> Value:
    return uniform_numbers(b, b.output.shape, b.output.dtype)


@lowering("aten::normal_functional")
def normal(b: LoweringBuilder, x: Value, mean: float, std: float, generator: None) -> Value:
    return _scaled(b, normal_numbers(b, x.shape, _result_dtype(b)), std, mean)


@lowering("aten::randn", "aten::randn.generator", "aten::randn_like", "aten::randn_like.generator")
def randn(b: LoweringBuilder, *arguments: Any) -> Value:
    return normal_numbers(b, b.output.shape, b.output.dtype)


@lowering("aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor")
def normal_around(b: LoweringBuilder, mean: Value | float, std: Value | float, generator: None) -> Value:
    number = normal_numbers(b, b.output.shape, b.output.dtype)
    scale = b.scalar(std, number.dtype, number.shape)
    if isinstance(b.metas["std"], torch.Tensor):
        negative = b.compare(scale, b.like(0, scale), "LT")
        scale = where_valid(b, scale, b.not_(negative), "normal expects all elements of std >= 0.0")
    return b.add(b.multiply(number, scale), b.scalar(mean, number.dtype, number.shape))


@lowering("aten::normal.float_float")
def normal_of_size(b: LoweringBuilder, mean: float, std: float, *arguments: Any) -> Value:
    return _scaled(b, normal_numbers(b, b.output.shape, b.output.dtype), std, mean)


@lowering("aten::log_normal")
def log_normal(b: LoweringBuilder, x: Value, mean: float, std: float, generator: None) -> Value:
    return b.exponential(normal(b, x, mean, std, None))


@lowering("aten::exponential")
def exponential(b: LoweringBuilder, x: Value, rate: float, generator: None) -> Value:
    return _exponential_numbers(b, x.shape, _result_dtype(b), rate)


def _exponential_numbers(b: LoweringBuilder, shape: Sequence[int], dtype: DType, rate: float) -> Value:
    number = positive_uniform_numbers(b, shape, dtype)
    # The smallest positive float instead of 0: PyTorch promises results above 0.
    return b.maximum(b.divide(b.negate(b.log(number)), b.like(rate, number)), b.like(torch.finfo(torch.float32).tiny, number))


@lowering("aten::cauchy")
def cauchy(b: LoweringBuilder, x: Value, median: float, sigma: float, generator: None) -> Value:
    number = uniform_numbers(b, x.shape, DType.F64 if x.dtype is DType.F64 else DType.F32)
    return _scaled(b, b.tan(_scaled(b, number, math.pi, -math.pi / 2)), sigma, median)


@lowering("aten::geometric")
def geometric(b: LoweringBuilder, x: Value, p: float, generator: None) -> Value:
    """The number of trials until the first success."""
    number = positive_uniform_numbers(b, x.shape, x.dtype)
    trials = b.ceil(b.divide(b.log(number), b.like(math.log1p(-p), number))) if p < 1 else b.like(1, number)
    return b.maximum(trials, b.like(1, trials))


@lowering("aten::bernoulli")
def bernoulli(b: LoweringBuilder, p: Value, generator: None) -> Value:
    require_float(b, "self")
    return _draw(b, p.shape, p)


@lowering("aten::bernoulli.p")
def bernoulli_p(b: LoweringBuilder, x: Value, p: float, generator: None) -> Value:
    require(0 <= p <= 1, f"bernoulli: the probability is {p}, allowed are 0 to 1")
    number = uniform_numbers(b, x.shape, DType.F32)
    return b.compare(number, b.like(p, number), "LT")


@lowering("aten::bernoulli.Tensor")
def bernoulli_tensor(b: LoweringBuilder, x: Value, p: Value, generator: None) -> Value:
    require_float(b, "p")
    return _draw(b, x.shape, p)


def _draw(b: LoweringBuilder, shape: Sequence[int], p: Value) -> Value:
    """True with probability ``p``, of each element its own."""
    number = uniform_numbers(b, shape, DType.F64 if p.dtype is DType.F64 else DType.F32)
    probability = b.cast(p, number.dtype)
    probability = where_valid(b, probability, _between(b, probability, 0, 1), "bernoulli: a probability is not in [0, 1]")
    return b.compare(number, b.broadcast(probability, shape), "LT")


def integers(b: LoweringBuilder, shape: Sequence[int], low: int, count: int) -> Value:
    """Uniform whole numbers in [low, low + count) as i64. The bias of taking a remainder is below 2^-8 per value."""
    size = math.prod(shape)
    if count <= 1 << 24:
        word = b.random_bits(size)
        number = b.cast(b.remainder(word, b.like(count, word)), DType.I64)
    else:
        word = _words64(b, size)
        number = b.cast(b.remainder(word, b.like(count, word)) if count < 1 << 64 else word, DType.I64)
    return b.reshape(b.add(number, b.like(low, number)), shape)


def _whole_range(dtype: torch.dtype) -> int:
    """How many numbers ``random_()`` draws from for a dtype: all non-negative integers, or those a float holds exactly."""
    if dtype.is_floating_point:
        return int(2 ** _DIGITS[to_dtype(dtype)]) + 1
    return 2 if dtype == torch.bool else int(torch.iinfo(dtype).max) + 1


def _require_range(b: LoweringBuilder, low: int, end: int) -> None:
    """Numbers from ``low`` up to but not ``end`` exist, and the tensor's dtype has them all."""
    dtype = b.metas["self"].dtype
    require(low < end, f"random numbers from {low} to {end}: the first bound must be less than the second")
    if not dtype.is_floating_point:
        least, most = (0, 1) if dtype == torch.bool else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        require(least <= low and end - 1 <= most, f"random numbers from {low} to {end} are out of the bounds of {dtype}")


@lowering("aten::random", exact=True)
def random(b: LoweringBuilder, x: Value, generator: None) -> Value:
    return integers(b, x.shape, 0, _whole_range(b.metas["self"].dtype))


@lowering("aten::random.to", exact=True)
def random_to(b: LoweringBuilder, x: Value, to: int, generator: None) -> Value:
    _require_range(b, 0, to)
    return integers(b, x.shape, 0, to)


@lowering("aten::random.from", exact=True)
def random_from(b: LoweringBuilder, x: Value, low: int, to: int | None, generator: None) -> Value:
    last = _whole_range(b.metas["self"].dtype) if to is None else to
    _require_range(b, low, last)
    return integers(b, x.shape, low, last - low)


@lowering("aten::randint", "aten::randint.generator", exact=True)
def randint(b: LoweringBuilder, high: int, *arguments: Any) -> Value:
    return integers(b, b.output.shape, 0, high)


@lowering("aten::randint.low", "aten::randint.low_generator", exact=True)
def randint_low(b: LoweringBuilder, low: int, high: int, *arguments: Any) -> Value:
    return integers(b, b.output.shape, low, high - low)


@lowering("aten::randint_like", exact=True)
def randint_like(b: LoweringBuilder, x: Value, high: int, *arguments: Any) -> Value:
    _require_range(b, 0, high)
    return integers(b, x.shape, 0, high)


@lowering("aten::randint_like.low_dtype", exact=True)
def randint_like_low(b: LoweringBuilder, x: Value, low: int, high: int, *arguments: Any) -> Value:
    _require_range(b, low, high)
    return integers(b, x.shape, low, high - low)


@lowering("aten::randperm", "aten::randperm.generator", exact=True)
def randperm(b: LoweringBuilder, n: int, *arguments: Any) -> Value:
    """The order of n random 64-bit numbers."""
    if n == 0:
        return b.constant(0, b.output.dtype, (0,))
    return sorted_with_indices(b, b.cast(_words64(b, n), DType.I64), 0, False)[1]


@lowering("aten::multinomial")
def multinomial(b: LoweringBuilder, weights: Value, samples: int, replacement: bool, generator: None) -> Value:
    """With replacement by the inverse of the distribution function, without by an exponential race (Efraimidis & Spirakis, 2006)."""
    require(b.metas["self"].dtype.is_floating_point, f"multinomial: the weights are {b.metas['self'].dtype}, they must be floating numbers")
    require(samples > 0, f"multinomial: {samples} samples, allowed are 1 or more")
    weights = b.cast(weights, DType.F64 if weights.dtype is DType.F64 else DType.F32)
    *rows, categories = weights.shape
    require(categories <= _MOST_CATEGORIES, f"multinomial: {categories} categories, allowed are {_MOST_CATEGORIES}")
    allowed = b.and_(b.is_finite(weights), b.compare(weights, b.like(0, weights), "GE"))
    weights = where_valid(b, weights, allowed, "multinomial: a probability is negative, infinite or nan")
    sums = b.reduce(weights, "add", (len(rows),))
    positive = b.compare(sums, b.like(0, sums), "GT")
    weights = where_valid(b, weights, b.broadcast_in_dim(positive, weights.shape, range(len(rows))), "multinomial: probabilities sum to 0")
    if not replacement:
        race = b.divide(weights, _exponential_numbers(b, weights.shape, weights.dtype, 1.0))
        types = (TensorType((*rows, samples), weights.dtype), TensorType((*rows, samples), DType.I64))
        return b.composite("topk", (race,), {"k": samples, "dim": len(rows), "largest": True}, types)[1]
    bounds = b.scan(weights, "add", len(rows))
    total = b.slice(bounds, [0] * len(rows) + [categories - 1], bounds.shape)
    number = b.multiply(uniform_numbers(b, (*rows, samples), weights.dtype), b.broadcast(total, (*rows, samples)))
    shape = (*rows, samples, categories)
    axes = range(len(rows))
    below = b.compare(
        b.broadcast_in_dim(bounds, shape, (*axes, len(rows) + 1)), b.broadcast_in_dim(number, shape, (*axes, len(rows))), "LE"
    )
    index = b.reduce(b.cast(below, DType.I64), "add", (len(rows) + 1,))
    return b.minimum(index, b.like(categories - 1, index))


@lowering("aten::rrelu_with_noise_functional")
def rrelu_with_noise(
    b: LoweringBuilder, x: Value, noise: Value, lower: Value | float, upper: Value | float, training: bool, generator: None
) -> tuple[Value, Value]:
    """A leaky ReLU whose slope for x ≤ 0 is random between the bounds, and their mean in evaluation; ``noise`` becomes the slopes."""
    wide = widened(b, x)
    low, high = b.scalar(lower, wide.dtype, wide.shape), b.scalar(upper, wide.dtype, wide.shape)
    if not training:
        mean = b.multiply(b.add(low, high), b.like(0.5, wide))
        return b.select(b.compare(wide, b.like(0, wide), "LE"), b.multiply(wide, mean), wide), noise
    number = uniform_numbers(b, x.shape, wide.dtype)
    drawn = b.add(b.multiply(number, b.subtract(high, low)), low)
    slope = b.select(b.compare(wide, b.like(0, wide), "LE"), drawn, b.like(1, wide))
    return b.multiply(wide, slope), slope

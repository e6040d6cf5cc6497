"""Connectionist temporal classification (Graves et al., 2006), in logarithms, time step by time step.

The extended target of length 2 S + 1 has a blank before, between and behind the S symbols; a path stays, moves by one, or skips a blank
between two different symbols. ``alpha[t, s]`` sums the beginnings of paths that are at s at time t, ``beta[t, s]`` their ends, both with
the probability at t.
"""

from __future__ import annotations

from ..builder import Builder
from ..ir import Value
from ..types import DType

LOWEST = float("-inf")


def decompose_ctc_loss(
    b: Builder, log_probs: Value, targets: Value, input_lengths: Value, target_lengths: Value, *, blank: int
) -> tuple[Value, Value]:
    """(negative log likelihood [B], log alpha [B, T, 2 S + 1])."""
    paths = _Paths(b, log_probs, targets, target_lengths, blank)
    time, (batch, states) = log_probs.shape[0], paths.shape
    alpha = b.select(paths.starts, paths.emitted(0), paths.lowest)
    alphas = [alpha]
    for step in range(1, time):
        alpha = b.add(paths.arrivals(alpha, 1, paths.may_skip), paths.emitted(step))
        alphas.append(alpha)
    log_alpha = b.concatenate([b.reshape(each, (batch, 1, states)) for each in alphas], 1)
    last = _number(b, b.subtract(input_lengths, _fill(b, 1, input_lengths)), log_alpha.shape, 0)
    at_last = b.compare(b.iota(log_alpha.shape, DType.I64, 1), last, "EQ")
    ends = b.and_(at_last, b.broadcast_in_dim(paths.ends, log_alpha.shape, (0, 2)))
    likelihood = _log_sum(b, b.select(ends, log_alpha, b.broadcast(b.constant(LOWEST, log_alpha.dtype), log_alpha.shape)), (1, 2))
    no_input = b.compare(input_lengths, _fill(b, 0, input_lengths), "EQ")
    no_target = b.compare(target_lengths, _fill(b, 0, target_lengths), "EQ")
    certain = b.and_(no_input, no_target)
    return b.select(certain, b.constant(0, likelihood.dtype, (batch,)), b.negate(likelihood)), log_alpha


def decompose_ctc_loss_backward(
    b: Builder,
    grad: Value,
    log_probs: Value,
    targets: Value,
    input_lengths: Value,
    target_lengths: Value,
    neg_log_likelihood: Value,
    log_alpha: Value,
    *,
    blank: int,
    zero_infinity: bool,
) -> Value:
    """As PyTorch has it, the gradient by what ``log_probs`` is the log softmax of: probabilities less posteriors."""
    paths = _Paths(b, log_probs, targets, target_lengths, blank)
    (time, batch, classes), (_, states) = log_probs.shape, paths.shape
    beta = paths.lowest
    betas: list[Value] = []
    for step in reversed(range(time)):
        is_last = b.compare(input_lengths, b.constant(step + 1, DType.I64, (batch,)), "EQ")
        last = b.select(paths.ends, paths.emitted(step), paths.lowest)
        moved = b.add(paths.arrivals(beta, -1, paths.skipped_from), paths.emitted(step))
        beta = b.select(b.broadcast_in_dim(is_last, paths.shape, (0,)), last, moved)
        betas.append(beta)
    log_beta = b.concatenate([b.reshape(each, (batch, 1, states)) for each in reversed(betas)], 1)
    emitted = b.concatenate([b.reshape(paths.emitted(step), (batch, 1, states)) for step in range(time)], 1)
    likelihood = b.negate(b.broadcast_in_dim(neg_log_likelihood, log_beta.shape, (0,)))
    occupied = b.is_finite(b.add(log_alpha, log_beta))
    posterior = b.exponential(b.subtract(b.subtract(b.add(log_alpha, log_beta), emitted), likelihood))
    posterior = b.select(occupied, posterior, b.constant(0, posterior.dtype, posterior.shape))
    by_class = b.transpose(b.dot_general(posterior, paths.one_hot(classes), (0,), (0,), (2,), (1,)), (1, 0, 2))
    result = b.multiply(b.subtract(b.exponential(log_probs), by_class), b.broadcast_in_dim(grad, log_probs.shape, (1,)))
    # Without any path there are no posteriors: PyTorch's gradient is nan then.
    loss = b.broadcast_in_dim(neg_log_likelihood, log_probs.shape, (1,))
    result = b.select(b.is_finite(loss), result, b.constant(float("nan"), result.dtype, result.shape))
    counts = b.compare(b.iota(log_probs.shape, DType.I64, 0), _number(b, input_lengths, log_probs.shape, 1), "LT")
    if zero_infinity:
        counts = b.and_(counts, b.not_(b.is_inf(loss)))
    return b.select(counts, result, b.constant(0, result.dtype, result.shape))


class _Paths:
    """The extended targets of a batch, and how paths move along them. ``shape`` is [B, 2 S + 1]."""

    def __init__(self, b: Builder, log_probs: Value, targets: Value, target_lengths: Value, blank: int) -> None:
        self.b, self.log_probs = b, log_probs
        batch, longest = targets.shape
        self.shape = (batch, 2 * longest + 1)
        one = b.pad(b.reshape(targets, (batch, longest)), b.constant(blank, DType.I64), (0, 1), (0, 1), (0, 1))
        self.symbols = one if longest else b.constant(blank, DType.I64, self.shape)
        state = b.iota(self.shape, DType.I64, 1)
        double = b.multiply(target_lengths, _fill(b, 2, target_lengths))
        final = _number(b, double, self.shape, 0)
        self.ends = b.or_(b.compare(state, final, "EQ"), b.compare(state, b.subtract(final, _fill(b, 1, final)), "EQ"))
        inside = b.compare(state, final, "LE")
        self.starts = b.and_(inside, b.compare(state, _fill(b, 1, state), "LE"))
        self.lowest = b.constant(LOWEST, log_probs.dtype, self.shape)
        is_blank = b.compare(self.symbols, _fill(b, blank, self.symbols), "EQ")
        repeats = b.compare(self.symbols, self._moved(self.symbols, 2, blank), "EQ")
        self.may_skip = b.not_(b.or_(is_blank, repeats))
        # Where a path may leave for two states further on: that state may be reached by skipping.
        self.skipped_from = b.compare(self._moved(b.convert(self.may_skip, DType.I64), -2, 0), _fill(b, 1, state), "EQ")

    def emitted(self, step: int) -> Value:
        """The log probability at a time of each state's symbol."""
        b, (_, batch, classes) = self.b, self.log_probs.shape
        row = b.reshape(b.slice(self.log_probs, (step, 0, 0), (step + 1, batch, classes)), (batch, classes))
        places = b.concatenate([b.reshape(part, (*self.shape, 1)) for part in (b.iota(self.shape, DType.I64, 0), self.symbols)], 2)
        return b.gather(row, places, (), (0, 1), (0, 1), 2, (1, 1))

    def arrivals(self, before: Value, direction: int, may_skip: Value) -> Value:
        """The logarithm of the sum over the three states that a path may come from (``direction`` 1) or go to (-1)."""
        b = self.b
        step, skip = (self._moved(before, direction * by, LOWEST) for by in (1, 2))
        three = [before, step, b.select(may_skip, skip, self.lowest)]
        return _log_sum(b, b.concatenate([b.reshape(each, (1, *self.shape)) for each in three], 0), (0,))

    def one_hot(self, classes: int) -> Value:
        shape = (*self.shape, classes)
        hot = self.b.compare(self.b.iota(shape, DType.I64, 2), self.b.broadcast_in_dim(self.symbols, shape, (0, 1)), "EQ")
        return self.b.convert(hot, self.log_probs.dtype)

    def _moved(self, x: Value, by: int, fill: float) -> Value:
        return self.b.pad(x, self.b.constant(fill, x.dtype), (0, by), (0, -by))


def _log_sum(b: Builder, x: Value, dims: tuple[int, ...]) -> Value:
    largest = b.reduce(x, "maximum", dims)
    finite = b.select(b.is_finite(largest), largest, b.constant(0, largest.dtype, largest.shape))
    kept = tuple(axis for axis in range(len(x.shape)) if axis not in dims)
    return b.add(finite, b.log(b.reduce(b.exponential(b.subtract(x, b.broadcast_in_dim(finite, x.shape, kept))), "add", dims)))


def _fill(b: Builder, number: int, like: Value) -> Value:
    return b.constant(number, like.dtype, like.shape)


def _number(b: Builder, per_batch: Value, shape: tuple[int, ...], dim: int) -> Value:
    return b.broadcast_in_dim(per_batch, shape, (dim,))

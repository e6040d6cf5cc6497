"""Contractions and convolutions with what is added to them and how they are rounded, as one call of the library can compute it.

The library adds a bias where the product is: in f32 a broadcast one that would otherwise need a pass over the result; in f16 and bf16 any,
as lowerings write ``convert(alpha * dot + beta * bias)`` with a product of narrow operands kept in f32. The library's narrow products
round once, after the addition, so they compute just that, on the CPU's matrix units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..hlo.ir import Module, Operation, Value
from ..hlo.types import DType
from ..passes.patterns import literal, made_by

Users = Mapping[Value, Sequence[Operation]]


@dataclass(frozen=True, slots=True)
class Bias:
    """``factor * value``, brought to the product's shape by ``spread``, a broadcast_in_dim; None if it has that shape."""

    value: Value
    spread: Operation | None
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class LibraryProduct:
    """``alpha * dot`` plus the bias. ``inner`` are operations before the last that the call computes too; nothing else needs them."""

    dot: Operation
    inner: frozenset[Operation] = frozenset()
    bias: Bias | None = None
    alpha: float = 1.0


def library_products(module: Module) -> dict[Operation, LibraryProduct]:
    """Every contraction of ``module``, by the operation whose result the library computes."""
    users = _users(module)
    joined = {
        operation: product
        for operation in module.operations
        if (product := _narrow_product(operation, users, module) or _wide_sum(operation, users, module)) is not None
    }
    inner = {operation for product in joined.values() for operation in product.inner}
    alone = {dot: LibraryProduct(dot) for dot in module.operations if dot.name == "dot_general" and dot not in inner}
    return joined | alone


def biased_convolutions(module: Module) -> dict[Operation, tuple[Operation, Value]]:
    """By the addition whose result the library computes: a convolution that nothing else needs, and a bias [channels] of its dtype."""
    users = _users(module)
    found = {}
    for operation in module.operations:
        if operation.name != "add":
            continue
        for product, addend in (operation.operands, operation.operands[::-1]):
            convolution, spread = made_by(product, "convolution"), made_by(addend, "broadcast_in_dim")
            if convolution is None or spread is None or not _has_one_user(product, users, module):
                continue
            if tuple(spread.attributes["dims"]) == (1,) and spread.operands[0].shape == product.shape[1:2] and product.type.size:
                found[operation] = convolution, spread.operands[0]
    return found


def _users(module: Module) -> dict[Value, list[Operation]]:
    users: dict[Value, list[Operation]] = {}
    for operation in module.operations:
        for operand in operation.operands:
            users.setdefault(operand, []).append(operation)
    return users


def _wide_sum(operation: Operation, users: Users, module: Module) -> LibraryProduct | None:
    """A product plus a broadcast bias, where nothing is left to fuse the addition with."""
    if operation.name != "add" or any(user.name not in ("dot_general", "return") for user in users.get(operation.result, [])):
        return None
    for product, bias in (operation.operands, operation.operands[::-1]):
        dot, spread = made_by(product, "dot_general"), made_by(bias, "broadcast_in_dim")
        if dot is None or spread is None or not _has_one_user(product, users, module):
            continue
        if dot.operands[0].dtype is product.dtype and product.type.size:
            return LibraryProduct(dot, frozenset({dot}), Bias(spread.operands[0], spread))
    return None


def _narrow_product(operation: Operation, users: Users, module: Module) -> LibraryProduct | None:
    """A product of f16 or bf16 operands that is rounded to their dtype, with or without a bias."""
    if operation.name != "convert" or operation.result.dtype not in (DType.F16, DType.BF16):
        return None
    (wide,) = operation.operands
    if wide.dtype is not DType.F32 or not wide.type.size or not _has_one_user(wide, users, module):
        return None
    if (dot := _narrow_dot(wide, operation.result.dtype)) is not None:
        return LibraryProduct(dot, frozenset({dot}))
    if (add := made_by(wide, "add")) is None:
        return None
    for product, addend in (add.operands, add.operands[::-1]):
        alpha, unscaled = _scaled(product)
        dot, bias = _narrow_dot(unscaled, operation.result.dtype), _narrow_bias(addend, operation.result.dtype)
        if dot is None or bias is None or not all(_has_one_user(value, users, module) for value in (product, unscaled)):
            continue
        inner = (value.producer for value in (wide, product, unscaled))
        return LibraryProduct(dot, frozenset(step for step in inner if step is not None), bias, alpha)
    return None


def _narrow_bias(addend: Value, dtype: DType) -> Bias | None:
    """What is added, where it is a tensor of ``dtype`` that was widened, scaled and spread."""
    spread = made_by(addend, "broadcast_in_dim")
    factor, wide = _scaled(addend if spread is None else spread.operands[0])
    widening = made_by(wide, "convert")
    return Bias(widening.operands[0], spread, factor) if widening is not None and widening.operands[0].dtype is dtype else None


def _narrow_dot(value: Value, dtype: DType) -> Operation | None:
    dot = made_by(value, "dot_general")
    return dot if dot is not None and all(operand.dtype is dtype for operand in dot.operands) else None


def _has_one_user(value: Value, users: Users, module: Module) -> bool:
    return len(users.get(value, ())) == 1 and value not in module.results


def _scaled(value: Value) -> tuple[float, Value]:
    """A constant factor and what it multiplies; the factor is 1 if there is none."""
    if (multiply := made_by(value, "multiply")) is not None:
        for factor, other in (multiply.operands, multiply.operands[::-1]):
            number = literal(factor)
            if number is not None and number.ndim == 0:
                return float(number), other
    return 1.0, value

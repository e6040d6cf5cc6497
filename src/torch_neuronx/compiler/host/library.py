"""Operations that run as library kernels: symbol and encoding of each. ``docs/library-kernels.md`` describes the other side.

An encoder turns an operation's attributes into the step's ints and floats, and says what one call costs in floating-point operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import log2, prod

from ..executable import ABSENT, LibraryStep, TensorRef
from ..hlo.ir import Operation, Value
from ..hlo.library_rules import FFT_KINDS, QR_MODES, RANDOM_DISTRIBUTIONS
from ..hlo.types import DType, contiguous_strides
from .contractions import ADDMM, MATMUL, merged_strides

# Single-thread floating-point operations per nanosecond of dense products, and of everything that is not one.
_DENSE_RATE = 60.0
_SPARSE_RATE = 1.0
# Element types that ATen's topk and cumulative kernels do not have.
_UNSORTED = (DType.I1, DType.UI16, DType.UI32, DType.UI64)
_SCAN_KINDS = {"add": 0, "multiply": 1, "maximum": 2, "minimum": 3}


@dataclass(frozen=True, slots=True)
class Encoding:
    """``optional``: how many absent tensors follow the given ones."""

    symbol: str
    ints: tuple[int, ...] = ()
    floats: tuple[float, ...] = ()
    cost: float = 0.0
    optional: int = 0


def encode(operation: Operation) -> Encoding:
    """How an operation is called. KeyError if the library has none for it."""
    name = operation.attributes["name"] if operation.name == "composite" else operation.name
    return (COMPOSITES if operation.name == "composite" else _OPERATIONS)[name](operation)


def has_kernel(composite: Operation) -> bool:
    """Whether the library has a kernel for a composite with its operands' types."""
    name = composite.attributes["name"]
    match name:
        case "philox" | "random_variate":
            return all(operand.is_scalar for operand in composite.operands[:2])
        case "topk" | "scan":
            return composite.operands[0].dtype not in _UNSORTED
        case _:
            return name in COMPOSITES


def library_step(operation: Operation, tensor: Callable[[Value], TensorRef], slots: Mapping[Value, int]) -> tuple[LibraryStep, float]:
    """The step that calls the library for an operation, and its estimated nanoseconds. ``tensor`` places a result or an operand."""
    encoding = encode(operation)
    results = [_result_tensor(operation, result, tensor(result)) for result in operation.results]
    operands = [tensor(operand) for operand in operation.operands if not operand.is_scalar]
    scalars = tuple(slots[operand] for operand in operation.operands if operand.is_scalar)
    tensors = (*results, *operands, *(ABSENT,) * encoding.optional)
    return LibraryStep(encoding.symbol, tensors, encoding.ints, encoding.floats, scalars), encoding.cost


def accepts_result(operation: Operation, strides: tuple[int, ...]) -> bool:
    """Whether a library kernel can write a result with these strides."""
    shape = operation.results[0].shape
    if operation.name in (MATMUL, ADDMM):
        return merged_strides(shape, strides, operation.attributes["shape"]) is not None
    if operation.attributes.get("name") in ("philox", "random_variate"):
        return strides == contiguous_strides(shape)
    return True


def _result_tensor(operation: Operation, result: Value, ref: TensorRef) -> TensorRef:
    if operation.name not in (MATMUL, ADDMM):
        return ref
    shape = operation.attributes["shape"]
    strides = merged_strides(result.shape, ref.strides, shape)
    assert strides is not None, "see accepts_result"
    return TensorRef(ref.buffer, ref.dtype_code, shape, strides)


Encoder = Callable[[Operation], Encoding]


def _matmul(operation: Operation) -> Encoding:
    lhs, attributes = operation.operands[-2], operation.attributes
    cost = 2 * operation.result.type.size * lhs.shape[-1] / _DENSE_RATE
    if operation.name == MATMUL:
        return Encoding("matmul", cost=cost)
    return Encoding("addmm", floats=(attributes["beta"], attributes["alpha"]), cost=cost)


def _convolution(operation: Operation) -> Encoding:
    attributes, weight = operation.attributes, operation.operands[1]
    rank = weight.type.rank - 2
    ints = (
        rank,
        *attributes["strides"],
        *(low for low, _ in attributes["padding"]),
        *attributes["rhs_dilation"],
        0,
        *(0,) * rank,
        attributes["groups"],
    )
    cost = _convolution_cost(operation.result.type.size, weight.shape)
    return Encoding("convolution", ints, cost=cost, optional=3 - len(operation.operands))


def _convolution_gradient(operation: Operation) -> Encoding:
    attributes, dout = operation.attributes, operation.operands[0]
    weight = attributes["weight_shape"] if "weight_shape" in attributes else operation.operands[1].shape
    ints = (
        dout.type.rank - 2, *attributes["strides"], *attributes["padding"], *attributes["dilation"], int(attributes["transposed"]),
        *attributes["output_padding"], attributes["groups"],
    )  # fmt: skip
    return Encoding(attributes["name"], ints, cost=_convolution_cost(dout.type.size, weight))


def _convolution_cost(output_size: int, weight_shape: tuple[int, ...]) -> float:
    return 2 * output_size * prod(weight_shape[1:]) / _DENSE_RATE


def _attention(operation: Operation) -> Encoding:
    attributes = operation.attributes
    first = 0 if attributes["name"] == "attention" else 1
    q, k = operation.operands[first : first + 2]
    given = 3 if first == 0 else 6
    products = 2 if first == 0 else 5
    cost = products * 2 * q.type.size * k.shape[2] / _DENSE_RATE
    ints = (int(attributes["causal"]),)
    return Encoding(attributes["name"], ints, (float(attributes["scale"]),), cost, optional=given + 1 - len(operation.operands))


def _max_pool(operation: Operation) -> Encoding:
    attributes = operation.attributes
    window = attributes["window"]
    ints = (len(window), *window, *attributes["strides"], *attributes["padding"], *attributes["dilation"])
    return Encoding("max_pool", ints, cost=operation.results[0].type.size * prod(window) / _SPARSE_RATE)


def _avg_pool(operation: Operation) -> Encoding:
    attributes = operation.attributes
    window = attributes["window"]
    flags = (int(attributes["ceil_mode"]), int(attributes["count_include_pad"]), attributes["divisor"] or 0)
    ints = (len(window), *window, *attributes["strides"], *attributes["padding"], *flags)
    return Encoding(attributes["name"], ints, cost=operation.results[0].type.size * prod(window) / _SPARSE_RATE)


def _ctc(operation: Operation) -> Encoding:
    attributes = operation.attributes
    flags = (int(attributes["zero_infinity"]),) if "zero_infinity" in attributes else ()
    states = operation.operands[-1] if flags else operation.results[1]
    return Encoding(attributes["name"], (attributes["blank"], *flags), cost=30 * states.type.size / _SPARSE_RATE)


def _sort(operation: Operation) -> Encoding:
    attributes, (x,) = operation.attributes, operation.operands
    ints = (attributes["dim"], int(attributes["descending"]), int(attributes["stable"]))
    return Encoding("sort", ints, cost=_sort_cost(x, attributes["dim"]))


def _topk(operation: Operation) -> Encoding:
    attributes, (x,) = operation.attributes, operation.operands
    return Encoding("topk", (attributes["k"], attributes["dim"], int(attributes["largest"])), cost=_sort_cost(x, attributes["dim"]))


def _sort_cost(x: Value, dim: int) -> float:
    return 2 * x.type.size * log2(2 + (x.shape[dim] if x.shape else 1)) / _SPARSE_RATE


def _scan(operation: Operation) -> Encoding:
    attributes = operation.attributes
    return Encoding("scan", (_SCAN_KINDS[attributes["kind"]], attributes["dim"]), cost=operation.result.type.size / _SPARSE_RATE)


def _philox(operation: Operation) -> Encoding:
    return Encoding("philox", cost=2 * operation.result.type.size / _SPARSE_RATE)


def _linear_algebra(flags: str = "") -> Encoder:
    """A decomposition or solution of matrices; ``flags`` are the attributes that the kernel takes, as 0 or 1."""
    names = flags.split()

    def encoder(operation: Operation) -> Encoding:
        attributes = operation.attributes
        largest = max(operation.operands, key=lambda operand: operand.type.size)
        cost = 10 * largest.type.size * max(largest.shape[-1], 1) / _SPARSE_RATE
        return Encoding(attributes["name"], tuple(int(attributes[name]) for name in names), cost=cost)

    return encoder


def _qr(operation: Operation) -> Encoding:
    return replace(_linear_algebra()(operation), ints=(QR_MODES.index(operation.attributes["mode"]),))


def _grouped_matmul(operation: Operation) -> Encoding:
    lhs, rhs, _ = operation.operands
    inner = lhs.shape[-1] if lhs.type.rank + rhs.type.rank > 4 else lhs.shape[1] // max(operation.result.shape[0], 1)
    return Encoding("grouped_matmul", cost=2 * operation.result.type.size * inner / _DENSE_RATE)


def _fft(operation: Operation) -> Encoding:
    attributes, (x,) = operation.attributes, operation.operands
    cost = 5 * x.type.size * log2(1 + prod(attributes["length"])) / _SPARSE_RATE
    return Encoding("fft", (FFT_KINDS.index(attributes["kind"]), len(attributes["length"]), attributes["length"][-1]), cost=cost)


def _special_function(operation: Operation) -> Encoding:
    return Encoding(operation.attributes["function"], cost=30 * operation.result.type.size / _SPARSE_RATE)


def _random_variate(operation: Operation) -> Encoding:
    attributes = operation.attributes
    ints = (tuple(RANDOM_DISTRIBUTIONS).index(attributes["distribution"]), attributes["start"])
    return Encoding("random_variate", ints, cost=80 * operation.result.type.size / _SPARSE_RATE)


_OPERATIONS: Mapping[str, Encoder] = {MATMUL: _matmul, ADDMM: _matmul, "convolution": _convolution}

COMPOSITES: Mapping[str, Encoder] = {
    "attention": _attention,
    "attention_backward": _attention,
    "convolution_input_grad": _convolution_gradient,
    "convolution_weight_grad": _convolution_gradient,
    "max_pool": _max_pool,
    "avg_pool": _avg_pool,
    "avg_pool_backward": _avg_pool,
    "ctc_loss": _ctc,
    "ctc_loss_backward": _ctc,
    "sort": _sort,
    "topk": _topk,
    "scan": _scan,
    "philox": _philox,
    "cholesky": _linear_algebra("upper"),
    "lu_factor": _linear_algebra("pivot"),
    "lu_unpack": _linear_algebra(),
    "lu_solve": _linear_algebra("left adjoint"),
    "triangular_solve": _linear_algebra("upper left unit_diagonal"),
    "qr": _qr,
    "eigh": _linear_algebra("upper vectors"),
    "eig": _linear_algebra(),
    "svd": _linear_algebra("full vectors"),
    "geqrf": _linear_algebra(),
    "householder_product": _linear_algebra(),
    "householder_multiply": _linear_algebra("left transpose"),
    "ldl_factor": _linear_algebra("hermitian"),
    "ldl_solve": _linear_algebra("hermitian"),
    "matrix_exponential": _linear_algebra(),
    "grouped_matmul": _grouped_matmul,
    "fft": _fft,
    "special_function": _special_function,
    "random_variate": _random_variate,
}

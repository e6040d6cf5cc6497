"""Embedding lookups and the gradient of the table."""

from __future__ import annotations

from ..hlo.ir import Value
from ..hlo.types import DType
from .context import LoweringBuilder
from .precision import widened
from .registry import lowering


@lowering("aten::embedding", exact=True)
def embedding(b: LoweringBuilder, weight: Value, indices: Value, padding_idx: int, scale_grad_by_freq: bool, sparse: bool) -> Value:
    """Rows of the table [rows, width]; an index outside of it fails the launch."""
    rows = weight.shape[0]
    return b.take(weight, b.cast(indices, DType.I64), 0, f"embedding: an index is outside of the table, which has {rows} rows")


@lowering("aten::embedding_dense_backward")
def embedding_dense_backward(
    b: LoweringBuilder, grad_output: Value, indices: Value, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """The gradients of equal indices summed, or averaged with ``scale_grad_by_freq``. Those of ``padding_idx`` are dropped."""
    grad = widened(b, grad_output)
    width, count = grad.shape[-1], indices.type.size
    rows = b.reshape(b.cast(indices, DType.I64), (count, 1))
    # A row behind the last is out of bounds, and such updates are dropped.
    behind = b.constant(num_weights, DType.I64, rows.shape)
    target = b.select(b.compare(rows, b.constant(padding_idx, DType.I64, rows.shape), "EQ"), behind, rows)
    updates = b.reshape(grad, (count, width))
    if scale_grad_by_freq:
        zeros = b.constant(0, grad.dtype, (num_weights,))
        counts = b.scatter(zeros, rows, b.constant(1, grad.dtype, (count,)), "add", (), (0,), (0,), 1)
        own = b.take(counts, b.reshape(rows, (count,)), 0)
        updates = b.divide(updates, b.broadcast_in_dim(own, updates.shape, (0,)))
    table = b.constant(0, grad.dtype, (num_weights, width))
    return b.scatter(table, target, updates, "add", (1,), (0,), (0,), 1)

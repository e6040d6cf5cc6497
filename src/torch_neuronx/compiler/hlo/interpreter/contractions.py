"""Sums of products."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import Operation
from ..numerics import HELD_AS, Array
from .layout import pad_array
from .table import Implementation, narrow, widen


def _dot_general(operation: Operation, lhs: Array, rhs: Array) -> Array:
    """An einsum in which batch and contracting dimensions of both sides share their labels."""
    attributes, dtype = operation.attributes, operation.result.dtype
    if dtype.is_integer:
        lhs, rhs = lhs.astype(HELD_AS[dtype]), rhs.astype(HELD_AS[dtype])
    of_lhs = list(range(lhs.ndim))
    of_rhs = list(range(lhs.ndim, lhs.ndim + rhs.ndim))
    for role in ("batch", "contract"):
        for left, right in zip(attributes[f"lhs_{role}"], attributes[f"rhs_{role}"], strict=True):
            of_rhs[right] = left
    batch = list(attributes["lhs_batch"])
    free = [label for label in of_lhs if label not in of_rhs] + [label for label in of_rhs if label not in of_lhs]
    return narrow(np.einsum(widen(lhs), of_lhs, widen(rhs), of_rhs, batch + free), dtype)


def _convolution(operation: Operation, x: Array, weight: Array) -> Array:
    """The sum over the positions of the kernel of one grouped product each."""
    attributes, shape = operation.attributes, operation.result.shape
    groups, strides = attributes["groups"], attributes["strides"]
    low, high = zip(*attributes["padding"], strict=True) if x.ndim > 2 else ((), ())
    gaps = (step - 1 for step in attributes["lhs_dilation"])
    padded = pad_array(widen(x), 0, (0, 0, *low), (0, 0, *high), (0, 0, *gaps))
    padded = padded.reshape(shape[0], groups, weight.shape[1], *padded.shape[2:])
    kernels = widen(weight).reshape(groups, shape[1] // groups, *weight.shape[1:])
    total = np.zeros((shape[0], groups, shape[1] // groups, *shape[2:]), padded.dtype)
    if total.size:
        for place in itertools.product(*map(range, weight.shape[2:])):
            first = [at * step for at, step in zip(place, attributes["rhs_dilation"], strict=True)]
            last = [start + (n - 1) * stride + 1 for start, n, stride in zip(first, shape[2:], strides, strict=True)]
            under: tuple[Any, ...] = (..., *map(slice, first, last, strides))
            kernel: tuple[Any, ...] = (..., *place)
            total = total + np.einsum("ngi...,goi->ngo...", padded[under], kernels[kernel])
    return narrow(total.reshape(shape), operation.result.dtype)


CONTRACTIONS: Mapping[str, Implementation] = {"dot_general": _dot_general, "convolution": _convolution}

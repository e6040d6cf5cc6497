"""Operators over lists of tensors: each is one elementwise operator applied to every element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hlo.ir import Value
from .context import LoweringBuilder
from .node import lower_node
from .registry import find, lowering, overload

_UNARY = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10"),
    *("log1p", "log2", "max", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
    *("zero",),
)

# foreach overload → the operator for one element, and how its arguments are called where the names differ.
_TABLE: dict[str, tuple[str, dict[str, str]]] = {
    **{name: (f"aten::{name}", {}) for name in _UNARY},
    **{
        f"{name}.{form}": (f"aten::{name}.Tensor", {source: "other"} if source != "other" else {})
        for name in ("add", "sub", "mul", "div")
        for form, source in (("Scalar", "scalar"), ("List", "other"), ("ScalarList", "scalars"), ("Tensor", "other"))
        if (name, form) != ("sub", "Tensor")
    },
    # A lower bound is a maximum: clamp_min and maximum are one function, as are clamp_max and minimum.
    **{
        f"{name}.{form}": (f"aten::{clamp}", {source: bound}) if form != "List" else (f"aten::{pairwise}", {})
        for name, pairwise, clamp, bound in (
            ("maximum", "maximum", "clamp_min", "min"),
            ("clamp_min", "maximum", "clamp_min", "min"),
            ("minimum", "minimum", "clamp_max", "max"),
            ("clamp_max", "minimum", "clamp_max", "max"),
        )
        for form, source in (("Scalar", "scalar"), ("List", "other"), ("ScalarList", "scalars"))
    },
    **{
        f"{name}.{form}": (f"aten::{name}", {"scalars": "value"} if form == "ScalarList" else {})
        for name in ("addcmul", "addcdiv")
        for form in ("Scalar", "ScalarList")
    },
    "lerp.List": ("aten::lerp.Tensor", {"tensors1": "end", "weights": "weight"}),
    "lerp.Scalar": ("aten::lerp.Scalar", {"tensors1": "end"}),
    "lerp.ScalarList": ("aten::lerp.Scalar", {"tensors1": "end", "weight": "weight"}),
    "pow.List": ("aten::pow.Tensor_Tensor", {}),
    "pow.Scalar": ("aten::pow.Tensor_Scalar", {}),
    "pow.ScalarList": ("aten::pow.Tensor_Scalar", {}),
    "pow.ScalarAndTensor": ("aten::pow.Scalar", {}),
    "norm.Scalar": ("aten::linalg_vector_norm", {}),
    "copy": ("aten::copy", {}),
}


def _register(name: str, element: str, renamed: Mapping[str, str]) -> None:
    statics = {"pow.Scalar": ("exponent",), "pow.ScalarList": ("exponent",), "norm.Scalar": ("ord",)}

    @lowering(f"aten::_foreach_{name}", static=statics.get(name, ()), exact=True)
    def lower(b: LoweringBuilder, *arguments: Any) -> list[Value]:
        variant = find(overload(element))
        assert variant is not None
        metas = dict(b.metas)
        values = dict(zip(metas, arguments, strict=True))
        count = max(len(values[name]) for name in values if isinstance(values[name], list | tuple))
        results = []
        for i in range(count):
            own = {renamed.get(key, key): _element(value, i) for key, value in values.items()}
            own_metas = {renamed.get(key, key): _element(meta, i) for key, meta in metas.items()}
            results.append(lower_node(b, variant, own, own_metas, (b.facts.output_metas[0][i],)).results[0])
        return results


def _element(argument: Any, index: int) -> Any:
    return argument[index] if isinstance(argument, list | tuple) else argument


for _name, (_operator, _renamed) in _TABLE.items():
    _register(_name, _operator, _renamed)

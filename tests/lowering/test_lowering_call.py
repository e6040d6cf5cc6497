"""How one eager call becomes a module, a signature and a binding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from torch_neuronx.compiler.hlo.ir import Layout
from torch_neuronx.compiler.lowering import registry
from torch_neuronx.compiler.lowering.call import LoweredCall, lower_call

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def lowered(op: Any, *arguments: Any, host: frozenset[tuple[int, int]] = frozenset()) -> LoweredCall:
    variant = registry.find(op)
    assert variant is not None
    return lower_call(variant, list(arguments), host)


def test_scalars_are_slots_and_new_results_have_sizes_strides_and_dtype() -> None:
    call = lowered(aten.add.Tensor, meta(2, 3), meta(3), 2)
    assert call.binding.inputs == [[0, -1], [1, -1]]
    assert call.binding.scalars == [["arg", 2, -1, "i64"]]
    assert call.binding.outputs == [{"sizes": [2, 3], "strides": [3, 1], "dtype": "float32"}]
    assert call.binding.returns == [["output", 0]]
    assert call.signature.parameters == (Layout((3, 1)), Layout((1,)), None)
    assert call.signature.text == "aten::add.Tensor(f32[2,3], f32[3])"


def test_a_number_given_as_tensor_is_a_slot_of_its_kind() -> None:
    assert lowered(aten.mul.Tensor, meta(2), 0.5).binding.scalars == [["arg", 1, -1, "f64"]]


def test_a_host_tensor_is_a_slot_and_keeps_its_place_in_promotion() -> None:
    call = lowered(aten.mul.Tensor, meta(2, dtype=torch.float16), meta(dtype=torch.float64), host=frozenset({(1, -1)}))
    assert call.binding.inputs == [[0, -1]]
    assert call.binding.scalars == [["arg", 1, -1, "f64"]]
    assert call.binding.outputs[0]["dtype"] == "float16"


def test_results_keep_the_strides_of_their_meta_function() -> None:
    x = meta(4, 2).t()
    assert lowered(aten.exp.default, x).binding.outputs == [{"sizes": [2, 4], "strides": [1, 2], "dtype": "float32"}]


def test_in_place_result_is_donated_the_argument_that_is_read() -> None:
    call = lowered(aten.add_.Tensor, meta(2), meta(2), 1)
    assert call.binding.outputs == [{"arg": [0, -1]}]
    assert call.binding.returns == [["arg", 0, -1]]
    assert dict(call.signature.donations) == {0: 0}


def test_an_argument_that_is_only_written_is_no_parameter() -> None:
    call = lowered(aten.copy_.default, meta(2), meta(2, dtype=torch.int64), False)
    assert call.binding.inputs == [[1, -1]]
    assert call.binding.outputs == [{"arg": [0, -1]}]
    assert dict(call.signature.donations) == {}


def test_identical_tensors_share_a_parameter() -> None:
    x = meta(3)
    call = lowered(aten.mul_.Tensor, x, x)
    assert call.binding.inputs == [[0, -1]]
    assert dict(call.signature.donations) == {0: 0}


def test_out_argument_is_written_in_its_own_dtype_and_layout() -> None:
    out = meta(3, 2, dtype=torch.float64).t()
    call = lowered(aten.add.out, meta(2, 3), meta(2, 3), 1, out)
    assert call.binding.outputs == [{"arg": [3, -1]}]
    assert call.signature.results == (Layout((1, 2)),)
    assert str(call.module.results[0].dtype) == "f64"


def test_factory_out_overload_takes_the_dtype_of_its_tensor() -> None:
    call = lowered(aten.arange.start_out, 1, 7, 2, meta(3, dtype=torch.int32))
    assert str(call.module.results[0].type) == "tensor<3xi32>"
    assert call.binding.scalars == []


def test_lists_are_bound_by_element() -> None:
    call = lowered(aten._foreach_add_.Scalar, [meta(2), meta(3)], 1.0)
    assert call.binding.inputs == [[0, 0], [0, 1]]
    assert call.binding.outputs == [{"arg": [0, 0]}, {"arg": [0, 1]}]
    assert call.binding.returns == []
    assert lowered(aten._foreach_neg.default, [meta(2)]).binding.returns == [["list", [["output", 0]]]]


def test_a_tensor_written_twice_is_refused() -> None:
    x = meta(2)
    with pytest.raises(NotImplementedError, match="written twice"):
        lowered(aten._foreach_add_.Scalar, [x, x], 1.0)


def test_a_conjugate_is_resolved_and_not_written() -> None:
    x = torch._conj(meta(2, dtype=torch.complex64))
    assert "negate" in [operation.name for operation in lowered(aten.exp.default, x).module.operations]
    with pytest.raises(NotImplementedError, match="conjugate"):
        lowered(aten.exp_.default, x)


def test_random_state_comes_last_and_advances_by_blocks_of_four_words() -> None:
    call = lowered(aten.uniform_.default, meta(5), 0.0, 1.0, None)
    assert call.binding.inputs == []
    assert call.binding.scalars == [["seed"], ["offset"]]
    assert call.binding.rng_draws == 2


def test_undefined_results_are_none() -> None:
    arguments = (meta(2, 3), meta(2, 3), [3], meta(2, 1), meta(2, 1), meta(3), meta(3), [True, False, True])
    returns = lowered(aten.native_layer_norm_backward.default, *arguments).binding.returns
    assert returns == [["output", 0], ["none"], ["output", 1]]


def test_float64_is_computed_in_float32_and_kept_by_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def dtypes(op: Any, *arguments: Any) -> set[str]:
        return {str(value.dtype) for operation in lowered(op, *arguments).module.operations for value in operation.results}

    wide = meta(2, dtype=torch.float64)
    assert dtypes(aten.exp.default, wide) == {"f32", "f64"}
    assert dtypes(aten.clone.default, wide, None) == set()
    assert dtypes(aten.flip.default, wide, [0]) == {"f64"}
    monkeypatch.setenv("TORCH_NEURONX_FLOAT64", "exact")
    assert dtypes(aten.exp.default, wide) == {"f64"}


@pytest.mark.parametrize(
    "name",
    [
        *("add.Tensor", "add_.Tensor", "add.out", "sum.IntList_out", "max.dim_max", "normal_", "bernoulli_.float", "random_.from"),
        *("randperm.out", "arange.start_out", "eye.m_out", "_foreach_addcdiv_.ScalarList", "_foreach_zero_", "_fused_adamw_.tensor_lr"),
        *("_amp_update_scale_", "index_put_", "native_batch_norm", "fill_.Tensor", "zero_", "silu_backward", "_foreach_copy_"),
    ],
)
def test_variants_found_by_schema(name: str) -> None:
    assert f"aten::{name}" in {op.name for op in registry.variants()}


@pytest.mark.parametrize("name", ["view", "transpose_", "squeeze_.dim", "_to_copy", "copy_", "ones", "rand", "argsort.stable"])
def test_views_factories_and_composites_are_left_to_pytorch(name: str) -> None:
    assert f"aten::{name}" not in {op.name for op in registry.variants()}


def test_static_and_hidden_written_arguments_are_named_by_position() -> None:
    by_name = {op.name: op for op in registry.variants()}
    assert by_name["aten::pow.Tensor_Scalar"].static_arguments == (1,)
    assert by_name["aten::native_batch_norm"].written_arguments == (3, 4)

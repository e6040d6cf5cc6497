"""Machine code: how it is made, laid out and shared."""

from __future__ import annotations

import re
import threading

import pytest
from host_launch import AVX2, compile_image

from torch_neuronx.compiler import compile_module, host_target
from torch_neuronx.compiler.executable import KernelStep
from torch_neuronx.compiler.hlo.builder import Builder
from torch_neuronx.compiler.hlo.ir import Layout, Module, Signature
from torch_neuronx.compiler.hlo.types import DType, TensorType
from torch_neuronx.compiler.host.kernel_cache import compile_kernel, compiled_kernel_count, emit_assembly
from torch_neuronx.compiler.host.object_code import UnresolvedSymbolError

F32 = DType.F32


def scaled_sum(shape: tuple[int, ...], factor: float = 3.25) -> Module:
    b = Builder("m")
    x, y = (b.parameter(TensorType(shape, F32)) for _ in range(2))
    return b.build([b.add(b.multiply(x, b.constant(factor, F32, shape)), b.broadcast_in_dim(b.reduce(y, "add", (1,)), shape, (0,)))])


def test_another_shape_or_constant_of_the_same_structure_needs_no_compilation() -> None:
    compile_image(scaled_sum((20, 130)))
    before = compiled_kernel_count()
    compile_image(scaled_sum((40, 150)))
    compile_image(scaled_sum((20, 131), factor=-7.5))
    assert compiled_kernel_count() == before


def test_equal_kernels_of_a_program_are_in_it_once() -> None:
    b = Builder("m")
    parameters = [b.parameter(TensorType((size, 7), F32)) for size in (3, 4, 5)]
    image = compile_image(b.build([b.tanh(p) for p in parameters]))
    assert len(image.steps) == 3
    assert len({step.entry for step in image.steps if isinstance(step, KernelStep)}) == 1


def test_scalar_arguments_are_not_part_of_the_code() -> None:
    b = Builder("m")
    results = []
    for _ in range(3):
        x, factor = b.parameter(TensorType((5,), F32)), b.parameter(TensorType((), DType.F64), is_scalar=True)
        results.append(b.multiply(x, b.broadcast(b.convert(factor, F32), (5,))))
    image = compile_image(b.build(results))
    assert len({step.entry for step in image.steps if isinstance(step, KernelStep)}) == 1


def test_compiling_from_several_threads_gives_the_same_images() -> None:
    images: dict[int, bytes] = {}

    def work(number: int) -> None:
        module = scaled_sum((8 + number % 2, 16))
        layouts = (Layout((16, 1)),) * 2
        images[number] = compile_module(module, Signature(layouts, (Layout((16, 1)),)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(images.values())) == 2


def test_a_reference_out_of_the_code_is_an_error_that_names_it() -> None:
    text = """target triple = "x86_64-unknown-linux-gnu"
declare double @elsewhere(double)
define i32 @kernel(ptr %p) {
  %x = load double, ptr %p
  %y = call double @elsewhere(double %x)
  store double %y, ptr %p
  ret i32 0
}"""
    with pytest.raises(UnresolvedSymbolError, match="elsewhere"):
        compile_kernel(text, host_target())


@pytest.mark.parametrize("target", [host_target(), AVX2])
def test_common_kernels_are_vectorised(target: object, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(
        "torch_neuronx.compiler.host.plan.compile_kernel", lambda text, target: texts.append(text) or compile_kernel(text, target)
    )
    b = Builder("m")
    x, y = b.parameter(TensorType((64, 128), F32)), b.parameter(TensorType((64, 128), DType.BF16))
    e = b.exponential(b.add(x, b.convert(y, F32)))
    module = b.build(
        [b.divide(e, b.broadcast_in_dim(b.reduce(e, "add", (1,)), e.shape, (0,))), b.reduce(x, "add", (0,)), b.transpose(x, (1, 0))]
    )
    compile_image(module, target=target)  # type: ignore[arg-type]
    register = "zmm" if target.vector_bits == 512 else "ymm"  # type: ignore[attr-defined]
    for text in texts:
        assembly = emit_assembly(text, target)  # type: ignore[arg-type]
        assert register in assembly
        if "vm_exponential" in text:
            assert "vfmadd" in assembly
    assert len(texts) == 3


def test_scalar_arguments_do_not_narrow_the_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(
        "torch_neuronx.compiler.host.plan.compile_kernel", lambda text, target: texts.append(text) or compile_kernel(text, target)
    )
    b = Builder("m")
    x, factor = b.parameter(TensorType((4096,), F32)), b.parameter(TensorType((), DType.F64), is_scalar=True)
    compile_image(b.build([b.multiply(x, b.broadcast(b.convert(factor, F32), x.shape))]), target=AVX2)
    assert [f'"llvm.loop.vectorize.width", i32 {AVX2.vector_bits // 32}' in text for text in texts] == [True]


def test_scatter_add_of_rows_is_vectorised(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(
        "torch_neuronx.compiler.host.plan.compile_kernel", lambda text, target: texts.append(text) or compile_kernel(text, target)
    )
    b = Builder("m")
    table, updates = b.parameter(TensorType((300, 385), F32)), b.parameter(TensorType((70, 385), F32))
    rows = b.parameter(TensorType((70, 1), DType.I64))
    compile_image(b.build([b.scatter(table, rows, updates, "add", (1,), (0,), (0,), 1)]), target=AVX2)
    adding = [text for text in texts if "fadd" in text]
    assert [re.search(r"vaddps.*%ymm", emit_assembly(text, AVX2)) is not None for text in adding] == [True]


def test_signature_that_does_not_fit_is_an_error() -> None:
    module = scaled_sum((2, 3))
    good = Layout((3, 1))
    with pytest.raises(ValueError, match="1 parameter layouts for 2 parameters"):
        compile_module(module, Signature((good,), (good,)))
    with pytest.raises(ValueError, match="one per dimension"):
        compile_module(module, Signature((good, Layout((1,))), (good,)))
    with pytest.raises(ValueError, match="cannot have the buffer"):
        compile_module(module, Signature((Layout((1, 2)), good), (good,), {0: 0}))

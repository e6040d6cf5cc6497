"""The dispatcher's cache: what makes a new program, what reuses one, and what a launch reads and writes."""

from __future__ import annotations

import threading

import pytest
import torch
from handmade_programs import Compiler, binding, library_image, mm_program, output

import torch_neuronx
from torch_neuronx import _C


def matrices(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape).to("neuron") for shape in shapes]


def product(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    return lhs.cpu() @ rhs.cpu()


def test_the_second_call_of_a_key_does_not_enter_python(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    for _ in range(3):
        torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), product(lhs, rhs))
    assert compiler.names() == ["aten::mm"]


def test_other_tensors_of_the_same_kind_reuse_the_program(compiler: Compiler) -> None:
    for _ in range(3):
        lhs, rhs = matrices((3, 4), (4, 5))
        torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), product(lhs, rhs))
    assert compiler.names() == ["aten::mm"]


def test_an_offset_into_the_storage_reuses_the_program(compiler: Compiler) -> None:
    (stack, rhs) = matrices((3, 3, 4), (4, 5))
    for lhs in stack:
        torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), product(lhs, rhs))
    assert compiler.names() == ["aten::mm"]


def test_shapes_and_strides_make_new_programs(compiler: Compiler) -> None:
    lhs, rhs, square = matrices((3, 4), (4, 5), (4, 4))
    for left, right in [(lhs, rhs), (square, square), (square.T, square), (square, square.T)]:
        torch.testing.assert_close(torch.mm(left, right).cpu(), product(left, right))
    assert len(compiler.calls) == 4


def test_strides_of_dimensions_of_one_element_do_not_matter(compiler: Compiler) -> None:
    (lhs, rhs) = matrices((1, 4), (4, 5))
    torch.mm(lhs, rhs)
    torch.mm(lhs.as_strided((1, 4), (77, 1)), rhs)
    assert len(compiler.calls) == 1


def test_many_keys_are_all_found_again(compiler: Compiler) -> None:
    calls = [matrices((rows, 2), (2, columns)) for rows in range(1, 9) for columns in range(1, 9)]
    for _ in range(2):
        for lhs, rhs in calls:
            torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), product(lhs, rhs))
    assert len(compiler.calls) == len(calls)


def test_values_are_part_of_the_key_and_scalars_are_not(compiler: Compiler) -> None:
    (x,) = matrices((4,))
    for alpha in (1.5, 2.5):
        torch.add(x, x, alpha=alpha)
    torch.add(x, x, alpha=2)
    assert [arguments[2] for _, arguments in compiler.calls] == [1.5, 2]  # one program per kind of number
    compiler.calls.clear()
    for dim in (0, 1):
        torch.cumsum(x.reshape(2, 2), dim)
    assert [arguments[1] for _, arguments in compiler.calls] == [0, 1]


def test_numbers_reach_python_as_numbers_and_cpu_scalars_as_tensors(compiler: Compiler) -> None:
    (x,) = matrices((4,))
    x + 1
    x + 2.5
    x + torch.tensor(3.0)
    others = [arguments[1] for _, arguments in compiler.calls]
    assert others[0] == 1 and isinstance(others[0], int)
    assert others[1] == 2.5 and isinstance(others[1], float)
    assert isinstance(others[2], torch.Tensor) and others[2].device.type == "cpu"


def test_schema_types_reach_python_as_torch_objects(compiler: Compiler) -> None:
    (x,) = matrices((4,))
    x.sum(0, dtype=torch.float64)
    name, arguments = compiler.calls[0]
    assert name == "aten::sum.dim_IntList"
    assert arguments[1:] == [[0], False, torch.float64]


def test_a_repeated_argument_of_a_writing_op_makes_a_new_program(compiler: Compiler) -> None:
    a, b = matrices((4,), (4,))
    a.add_(b)
    a.add_(a)
    b.add_(a)
    assert [name for name, _ in compiler.calls] == ["aten::add_.Tensor"] * 2


def test_none_is_remembered_and_falls_back(compiler: Compiler) -> None:
    (x,) = matrices((4,))
    torch_neuronx.clear_op_tracking()
    for _ in range(3):
        torch.testing.assert_close((x * 2).cpu(), x.cpu() * 2)
    assert compiler.names() == ["aten::mul.Tensor"]
    assert torch_neuronx.get_fallback_ops() == ["aten::mul.Tensor"] * 3


def test_what_compiling_raises_is_raised_and_nothing_is_cached(compiler: Compiler) -> None:
    def refuse(*_: torch.Tensor) -> None:
        raise LookupError("not today")

    lhs, rhs = matrices((3, 4), (4, 5))
    answer = compiler.answers.pop("aten::mm")
    compiler.answers["aten::mm"] = refuse
    for _ in range(2):
        with pytest.raises(LookupError, match="not today"):
            torch.mm(lhs, rhs)
    compiler.answers["aten::mm"] = answer
    torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), product(lhs, rhs))


def test_an_error_in_the_middle_of_a_backward_reaches_the_caller(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    lhs.requires_grad_()
    result = torch.mm(lhs, rhs)

    def refuse(*_: torch.Tensor) -> None:
        raise KeyError("backward")

    compiler.answers["aten::mm"] = refuse
    with pytest.raises(KeyError, match="backward"):
        result.backward(torch.ones(3, 5, device="neuron"))


def test_compiling_sees_no_autograd(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    compiler.answers["aten::mm"] = lambda *arguments: recorded.append((arguments[0] * 1).requires_grad) or mm_program(*arguments)
    recorded: list[bool] = []
    torch.mm(lhs.requires_grad_(), rhs)
    assert recorded == [False]


def resizing_mm(lhs: torch.Tensor, rhs: torch.Tensor, out: torch.Tensor) -> _C.EagerProgram:
    result = torch.empty(lhs.shape[0], rhs.shape[1])
    out.resize_(result.shape)
    program = library_image("matmul", [result], [lhs, rhs])
    return _C.EagerProgram(program, binding([[0, -1], [1, -1]], [{"arg": [2, -1]}], [["arg", 2, -1]]))


def test_an_out_argument_that_compiling_resizes_is_keyed_by_both_sizes(compiler: Compiler) -> None:
    compiler.answers["aten::mm.out"] = resizing_mm
    lhs, rhs = matrices((3, 4), (4, 5))
    for _ in range(2):
        out = torch.empty(0, device="neuron")
        assert torch.mm(lhs, rhs, out=out) is out
        torch.testing.assert_close(out.cpu(), product(lhs, rhs))
    torch.mm(lhs, rhs, out=out)
    assert len(compiler.calls) == 1


def test_an_out_argument_with_elements_is_resized_by_compiling_each_time(compiler: Compiler) -> None:
    compiler.answers["aten::mm.out"] = resizing_mm
    lhs, rhs = matrices((3, 4), (4, 5))
    for _ in range(2):
        out = torch.empty(2, device="neuron")
        torch.mm(lhs, rhs, out=out)
        torch.testing.assert_close(out.cpu(), product(lhs, rhs))
    assert len(compiler.calls) == 2


def test_an_in_place_program_writes_its_argument_and_returns_it(compiler: Compiler) -> None:
    def addmm_(self: torch.Tensor, lhs: torch.Tensor, rhs: torch.Tensor, beta: float, alpha: float) -> _C.EagerProgram:
        image = library_image("addmm", [self], [self, lhs, rhs], floats=[1.0, 1.0], donations=[0])
        return _C.EagerProgram(image, binding([[0, -1], [1, -1], [2, -1]], [{"arg": [0, -1]}], [["arg", 0, -1]]))

    compiler.answers["aten::addmm_"] = addmm_
    target, lhs, rhs = matrices((3, 5), (3, 4), (4, 5))
    expected = target.cpu() + product(lhs, rhs)
    version = target._version
    assert target.addmm_(lhs, rhs) is target
    torch.testing.assert_close(target.cpu(), expected)
    assert target._version == version + 1


def test_several_results_and_lists_are_returned_by_position(compiler: Compiler) -> None:
    def sort(x: torch.Tensor, dim: int, descending: bool) -> _C.EagerProgram:
        image = library_image("scan", [x], [x], ints=[0, 0])
        return _C.EagerProgram(image, binding([[0, -1]], [output(x)], [["output", 0], ["none"]]))

    compiler.answers["aten::sort"] = sort
    (x,) = matrices((4,))
    values, indices = torch.sort(x)
    torch.testing.assert_close(values.cpu(), x.cpu().cumsum(0))
    assert indices is None


def test_indices_on_the_cpu_are_moved_to_the_device(compiler: Compiler) -> None:
    (x,) = matrices((4,))
    index = torch.tensor([2, 0])
    torch.testing.assert_close(x[index].cpu(), x.cpu()[index])
    (arguments,) = [arguments for name, arguments in compiler.calls if name == "aten::index.Tensor"]
    assert arguments[1][0].device == x.device


def test_clearing_the_cache_compiles_again(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    torch.mm(lhs, rhs)
    _C._clear_eager_cache()
    torch.mm(lhs, rhs)
    assert len(compiler.calls) == 2


def test_compile_flags_are_part_of_every_key(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    torch.mm(lhs, rhs)
    try:
        _C._set_compile_flags(1 << 40)
        torch.mm(lhs, rhs)
    finally:
        _C._set_compile_flags(0)
    torch.mm(lhs, rhs)
    assert len(compiler.calls) == 2


def test_threads_that_miss_the_same_key_compile_it_once(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    together = threading.Barrier(4)
    compiling = threading.Event()

    def slow_mm(*arguments: torch.Tensor) -> _C.EagerProgram:
        compiling.wait(10)
        return mm_program(*arguments)

    compiler.answers["aten::mm"] = slow_mm
    results: list[torch.Tensor] = []

    def work() -> None:
        together.wait(10)
        results.append(torch.mm(lhs, rhs))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    compiling.set()
    for thread in threads:
        thread.join(30)
    assert len(results) == 4
    assert len(compiler.calls) == 1
    for result in results:
        torch.testing.assert_close(result.cpu(), product(lhs, rhs))


def test_clearing_while_threads_dispatch_is_safe(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    expected = product(lhs, rhs)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(200):
                torch.testing.assert_close(torch.mm(lhs, rhs).cpu(), expected)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        _C._clear_eager_cache()
    assert not failures


def test_compiling_that_needs_its_own_program_is_an_error(compiler: Compiler) -> None:
    compiler.answers["aten::mm"] = lambda lhs, rhs: torch.mm(lhs, rhs)
    lhs, rhs = matrices((3, 4), (4, 5))
    with pytest.raises(RuntimeError, match="compiling aten::mm calls the same op with the same arguments"):
        torch.mm(lhs, rhs)


def test_statistics_count_calls(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    before = _C._eager_stats()
    for _ in range(5):
        torch.mm(lhs, rhs)
    after = _C._eager_stats()
    assert {name: after[name] - before[name] for name in ("hits", "misses", "programs", "native", "fallbacks")} == {
        "hits": 4,
        "misses": 1,
        "programs": 1,
        "native": 5,
        "fallbacks": 0,
    }


def test_executed_ops_are_counted_until_cleared(compiler: Compiler) -> None:
    lhs, rhs = matrices((3, 4), (4, 5))
    torch_neuronx.clear_op_tracking()
    for _ in range(3):
        torch.mm(lhs, rhs)
    assert torch_neuronx.get_executed_ops() == ["aten::mm"] * 3
    torch_neuronx.clear_op_tracking()
    assert torch_neuronx.get_executed_ops() == []


def test_each_device_runs_its_own_tensors_with_the_same_program(compiler: Compiler) -> None:
    if torch.neuron.device_count() < 2:
        pytest.fail("the tests need at least two devices")
    lhs, rhs = (matrix.to("neuron:1") for matrix in matrices((3, 4), (4, 5)))
    torch.mm(lhs.to("neuron:0"), rhs.to("neuron:0"))
    result = torch.mm(lhs, rhs)
    assert result.device == torch.device("neuron:1")
    assert torch.neuron.current_device() == 0
    torch.testing.assert_close(result.cpu(), product(lhs, rhs))
    assert len(compiler.calls) == 1

"""The numbers of every random operator: their distribution, their independence, and that only the generator's state decides them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

import torch_neuronx

aten = torch.ops.aten
COUNT = 20000
LEAST_PROBABILITY = 1e-6

pytestmark = pytest.mark.filterwarnings("ignore")


def empty(count: int) -> Tensor:
    return torch.empty(count, device="neuron")


def filled(*numbers: float) -> Callable[[int], list[Tensor]]:
    return lambda count: [torch.full((count,), number, dtype=torch.float32, device="neuron") for number in numbers]


# Operator by name: how it draws a count of numbers, and their distribution.
CONTINUOUS: dict[str, tuple[Callable[[int], Tensor], Any]] = {
    "uniform": (lambda n: empty(n).uniform_(-1, 3), stats.uniform(-1, 4)),
    "rand": (lambda n: torch.rand(n, device="neuron"), stats.uniform()),
    "rand_like": (lambda n: torch.rand_like(empty(n)), stats.uniform()),
    "randn": (lambda n: torch.randn(n, device="neuron"), stats.norm()),
    "randn_like": (lambda n: torch.randn_like(empty(n)), stats.norm()),
    "normal_": (lambda n: empty(n).normal_(2, 3), stats.norm(2, 3)),
    "normal of tensors": (lambda n: torch.normal(*filled(2, 3)(n)), stats.norm(2, 3)),
    "log_normal": (lambda n: empty(n).log_normal_(0.5, 0.25), stats.lognorm(0.25, scale=np.exp(0.5))),
    "exponential": (lambda n: empty(n).exponential_(2.0), stats.expon(scale=0.5)),
    "cauchy": (lambda n: empty(n).cauchy_(1, 2), stats.cauchy(1, 2)),
    "gamma 0.1": (lambda n: torch._standard_gamma(*filled(0.1)(n)), stats.gamma(0.1)),
    "gamma 1": (lambda n: torch._standard_gamma(*filled(1)(n)), stats.gamma(1)),
    "gamma 30": (lambda n: torch._standard_gamma(*filled(30)(n)), stats.gamma(30)),
    "dirichlet": (lambda n: torch._sample_dirichlet(torch.tensor([[0.5, 2, 3]], device="neuron").expand(n, 3))[:, 0], stats.beta(0.5, 5)),
    "rrelu": (lambda n: -torch.rrelu(-torch.ones(n, device="neuron"), 0.1, 0.3, True), stats.uniform(0.1, 0.2)),
}
DISCRETE: dict[str, tuple[Callable[[int], Tensor], Any]] = {
    "bernoulli": (lambda n: torch.bernoulli(*filled(0.3)(n)), stats.bernoulli(0.3)),
    "bernoulli_": (lambda n: empty(n).bernoulli_(0.3), stats.bernoulli(0.3)),
    "dropout": (lambda n: torch.dropout(torch.ones(n, device="neuron"), 0.3, True).ne(0), stats.bernoulli(0.7)),
    "geometric": (lambda n: empty(n).geometric_(0.3), stats.geom(0.3)),
    "randint": (lambda n: torch.randint(-3, 9, (n,), device="neuron"), stats.randint(-3, 9)),
    "random_": (lambda n: torch.empty(n, dtype=torch.int64, device="neuron").random_(5, 17), stats.randint(5, 17)),
    "multinomial": (
        lambda n: torch.multinomial(torch.tensor([0.1, 0.5, 0.4], device="neuron"), n, replacement=True),
        stats.rv_discrete(values=([0, 1, 2], [0.1, 0.5, 0.4])),
    ),
    "randperm": (lambda n: torch.stack([torch.randperm(5, device="neuron")[0] for _ in range(n // 20)]), stats.randint(0, 5)),
    "poisson 0.2": (lambda n: torch.poisson(*filled(0.2)(n)), stats.poisson(0.2)),
    "poisson 9.9": (lambda n: torch.poisson(*filled(9.9)(n)), stats.poisson(9.9)),
    "poisson 10": (lambda n: torch.poisson(*filled(10)(n)), stats.poisson(10)),
    "poisson 2000": (lambda n: torch.poisson(*filled(2000)(n)), stats.poisson(2000)),
    "binomial 20 0.3": (lambda n: torch.binomial(*filled(20, 0.3)(n)), stats.binom(20, np.float32(0.3))),
    "binomial 100 0.25": (lambda n: torch.binomial(*filled(100, 0.25)(n)), stats.binom(100, 0.25)),
    "binomial 100 0.75": (lambda n: torch.binomial(*filled(100, 0.75)(n)), stats.binom(100, 0.75)),
    "binomial 9 0.75": (lambda n: torch.binomial(*filled(9, 0.75)(n)), stats.binom(9, 0.75)),
}
ALL = CONTINUOUS | DISCRETE


def drawn(name: str, seed: int = 3, count: int = COUNT) -> np.ndarray[Any, Any]:
    torch.manual_seed(seed)
    return following(name, count)


def following(name: str, count: int = COUNT) -> np.ndarray[Any, Any]:
    with torch_neuronx.fallback_policy("error"):
        return ALL[name][0](count).cpu().double().numpy()


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_numbers_by_kolmogorov_and_smirnov(name: str) -> None:
    probability = stats.kstest(drawn(name), CONTINUOUS[name][1].cdf).pvalue
    assert probability > LEAST_PROBABILITY


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_numbers_by_a_chi_squared_test(name: str) -> None:
    numbers, distribution = drawn(name), DISCRETE[name][1]
    assert np.array_equal(numbers, numbers.round())
    # Values in the tails are counted together, so that five or more are expected of each.
    low, high = (int(x) for x in distribution.ppf([10 / len(numbers), 1 - 10 / len(numbers)]))
    edges = np.arange(low, high + 1)
    expected = np.concatenate([[distribution.cdf(low)], distribution.pmf(edges[1:]), [distribution.sf(high)]]) * len(numbers)
    found = np.concatenate([[(numbers <= low).sum()], [(numbers == edge).sum() for edge in edges[1:]], [(numbers > high).sum()]])
    kept = expected > 0
    assert found[~kept].sum() == 0
    probability = stats.chisquare(found[kept], expected[kept]).pvalue if kept.sum() > 1 else 1.0
    assert probability > LEAST_PROBABILITY, f"{found}, expected {expected}"


@pytest.mark.parametrize("name", [name for name in ALL if name != "cauchy"])
def test_moments(name: str) -> None:
    numbers, distribution = drawn(name, seed=11), ALL[name][1]
    mean, variance = float(distribution.mean()), float(distribution.var())
    assert abs(numbers.mean() - mean) < 5.5 * np.sqrt(variance / len(numbers))
    fourth = float(distribution.expect(lambda x: (x - mean) ** 4)) if name in CONTINUOUS else ((numbers - mean) ** 4).mean()
    assert abs(((numbers - mean) ** 2).mean() - variance) < 5.5 * np.sqrt(max(fourth - variance**2, 0) / len(numbers)) + 1e-9


@pytest.mark.parametrize("name", ALL)
def test_draws_are_independent_of_those_before_and_of_their_neighbours(name: str) -> None:
    first, second = drawn(name), following(name)
    assert not np.array_equal(first, second)
    bound = 5.5 / np.sqrt(len(first))
    for one, other in ((first, second), (first[:-1], first[1:]), (first[1:], second[:-1]), (first[:-1], second[1:])):
        assert abs(stats.spearmanr(one, other).statistic) < bound


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides_and_the_number_of_threads_does_not(name: str) -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = drawn(name)
        torch.set_num_threads(2)
        assert np.array_equal(alone, drawn(name))
    finally:
        torch.set_num_threads(threads)
    assert not np.array_equal(alone, drawn(name, seed=4))


@pytest.mark.parametrize("draw", [torch.poisson, torch._standard_gamma, torch._sample_dirichlet], ids=lambda op: op.__name__)
def test_a_given_generator_is_drawn_from(draw: Any) -> None:
    rate = torch.full((50,), 7.0, device="neuron")
    own = torch.Generator(device="neuron").manual_seed(5)
    before = torch.neuron.get_rng_state()
    first, second = draw(rate, generator=own), draw(rate, generator=own)
    assert torch.equal(torch.neuron.get_rng_state(), before)
    assert not torch.equal(first, second)
    assert torch.equal(draw(rate, generator=own.manual_seed(5)), first)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_dtypes_strides_and_sizes(dtype: torch.dtype) -> None:
    with torch_neuronx.fallback_policy("error"):
        for shape in ((), (0,), (3, 0), (4, 5)):
            rate = torch.full(shape, 1000.0, dtype=dtype, device="neuron")
            for draw in (torch.poisson, torch._standard_gamma, lambda x: torch.binomial(x, torch.ones_like(x))):
                numbers = draw(rate)
                assert (numbers.shape, numbers.dtype, numbers.device) == (rate.shape, dtype, rate.device)
                assert (abs(numbers.double().cpu() - 1000) < 250).all()
        assert torch._sample_dirichlet(torch.ones((), device="neuron")).item() == 1
        strided = torch.tensor([[0.0, 1000.0], [0.0, 1000.0]], device="neuron").t()
        assert torch.equal(torch.poisson(strided).gt(0).cpu(), torch.tensor([[False, False], [True, True]]))


def test_parameters_at_the_edges() -> None:
    with torch_neuronx.fallback_policy("error"):
        rates = torch.tensor([0.0, float("inf")], device="neuron")
        assert torch.poisson(rates).tolist() == [0.0, float("inf")]
        counts, probabilities = torch.tensor([0.0, 5, 5], device="neuron"), torch.tensor([0.5, 0, 1], device="neuron")
        assert torch.binomial(counts, probabilities).tolist() == [0, 0, 5]
        shapes = torch.tensor([0.0, 1e-30, float("nan")], device="neuron")
        numbers = torch._standard_gamma(shapes)
        smallest = torch.finfo(torch.float32).tiny
        assert numbers[:2].tolist() == [smallest, smallest]
        assert numbers[2].isnan()


@pytest.mark.parametrize(
    ("draw", "text"),
    [
        (lambda: torch.poisson(torch.tensor([1.0, -1.0], device="neuron")), "expected rate to be non-negative"),
        (lambda: torch.binomial(*filled(-1, 0.5)(2)), "count is negative"),
        (lambda: torch.binomial(*filled(3, 1.5)(2)), "probability is not in"),
    ],
)
def test_a_parameter_that_no_distribution_has_fails_the_launch(draw: Callable[[], Tensor], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        draw().cpu()


@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_wrong_operands_raise_what_they_raise_on_the_cpu(device: str) -> None:
    numbers, integers = torch.ones(3, device=device), torch.ones(3, dtype=torch.int64, device=device)
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch.binomial(numbers, numbers.double())
    with pytest.raises(RuntimeError, match="must match the size"):
        torch._standard_gamma_grad(numbers, torch.ones(4, device=device))
    for draw in (torch.poisson, torch._standard_gamma, torch._sample_dirichlet):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            draw(integers)


def vector(*values: float) -> Callable[[str], Tensor]:
    return lambda device: torch.tensor(values, device=device)


BAD_CALLS: dict[str, Callable[[str], Any]] = {
    "uniform falling": lambda device: torch.empty(3, device=device).uniform_(3, -1),
    "uniform without end": lambda device: torch.empty(3, device=device).uniform_(0, float("inf")),
    "uniform beyond float16": lambda device: torch.empty(3, device=device, dtype=torch.float16).uniform_(-1e6, 1e6),
    "uniform integers": lambda device: torch.empty(3, device=device, dtype=torch.int64).uniform_(0, 1),
    "normal": lambda device: torch.empty(3, device=device).normal_(0, -1),
    "normal of tensors": lambda device: torch.normal(vector(0, 0.0)(device), vector(1, -1.0)(device)),
    "normal of a number": lambda device: torch.normal(0.0, vector(1, -1.0)(device)),
    "log_normal": lambda device: torch.empty(3, device=device).log_normal_(0, -1),
    "exponential": lambda device: torch.empty(3, device=device).exponential_(-1),
    "cauchy": lambda device: torch.empty(3, device=device).cauchy_(0, -1),
    "geometric": lambda device: torch.empty(3, device=device).geometric_(2),
    "bernoulli of a number": lambda device: torch.empty(3, device=device).bernoulli_(1.5),
    "bernoulli": lambda device: torch.bernoulli(vector(0.5, 1.5)(device)),
    "bernoulli of a tensor": lambda device: torch.empty(2, device=device).bernoulli_(vector(0.5, float("nan"))(device)),
    "bernoulli of integers": lambda device: torch.bernoulli(torch.ones(3, device=device, dtype=torch.int64)),
    "random without numbers": lambda device: torch.empty(3, device=device).random_(5, 5),
    "random bytes": lambda device: torch.empty(3, device=device, dtype=torch.uint8).random_(0, 500),
    "randint": lambda device: torch.randint(5, 5, (3,), device=device),
    "randint_like": lambda device: torch.randint_like(torch.ones(3, device=device), 0),
    "dropout": lambda device: torch.dropout(torch.ones(3, device=device), 1.5, True),
    "multinomial without samples": lambda device: torch.multinomial(vector(1, 1.0)(device), 0),
    "multinomial of integers": lambda device: torch.multinomial(torch.ones(3, device=device, dtype=torch.int64), 1),
    "multinomial with nan": lambda device: torch.multinomial(vector(1, float("nan"))(device), 1),
    "multinomial with infinity": lambda device: torch.multinomial(vector(1, float("inf"))(device), 1, True),
    "multinomial below 0": lambda device: torch.multinomial(vector(1, -1.0)(device), 1, True),
    "multinomial of nothing": lambda device: torch.multinomial(torch.tensor([[1.0, 1.0], [0.0, 0.0]], device=device), 1, True),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_a_bad_call_raises_the_exception_of_the_cpu(name: str) -> None:
    """A failed launch is an AcceleratorError, which is a RuntimeError."""
    with pytest.raises((RuntimeError, NotImplementedError)) as expected:
        BAD_CALLS[name]("cpu")
    with pytest.raises(expected.type):
        BAD_CALLS[name]("neuron").cpu()


def test_compiled_draws_are_those_of_eager() -> None:
    def draws(rate: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return torch.poisson(rate), torch._standard_gamma(rate), torch.poisson(rate) + torch.rand_like(rate)

    rate = torch.full((100,), 6.0, device="neuron")
    torch.manual_seed(9)
    eager = draws(rate)
    torch.manual_seed(9)
    for mine, expected in zip(torch.compile(draws, backend="neuron")(rate), eager, strict=True):
        assert torch.equal(mine, expected)

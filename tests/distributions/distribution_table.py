"""Every distribution of torch.distributions, with parameters: a function of tensors by name, and the tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch import distributions as D

Parameters = dict[str, Any]
MATRIX = [[1.5, 0.0, 0.0], [0.4, 0.8, 0.0], [-0.3, 0.2, 1.1]]


@dataclass(frozen=True, slots=True)
class Case:
    """``parameters``: numbers by argument name; ``constants``: what is no tensor; ``reference``: the dtype of the CPU's answer."""

    make: Callable[..., D.Distribution]
    parameters: Parameters = field(default_factory=dict)
    constants: Parameters = field(default_factory=dict)
    reference: torch.dtype = torch.float64

    def on(self, device: str, dtype: torch.dtype) -> tuple[D.Distribution, list[Tensor]]:
        """The distribution and its parameters, which ask for gradients."""
        # The same float32 numbers everywhere.
        rounded = {name: torch.tensor(value, dtype=torch.float32) for name, value in self.parameters.items()}
        tensors = {name: value.to(device, dtype).requires_grad_() for name, value in rounded.items()}
        return self.make(**tensors, **self.constants), list(tensors.values())


def mixture(logits: Tensor, loc: Tensor, scale: Tensor) -> D.Distribution:
    return D.MixtureSameFamily(D.Categorical(logits=logits), D.Normal(loc, scale))


def transformed(loc: Tensor, scale: Tensor) -> D.Distribution:
    return D.TransformedDistribution(D.Normal(loc, scale), [D.transforms.AffineTransform(1.0, 0.5), D.transforms.SigmoidTransform()])


def independent(loc: Tensor, scale: Tensor) -> D.Distribution:
    return D.Independent(D.Normal(loc, scale), 1)


LOC_SCALE = {"loc": [-0.5, 0.0, 2.0], "scale": [0.5, 1.0, 3.0]}
LOGITS = {"logits": [[0.1, -0.4, 1.2], [0.0, 2.0, -1.0]]}

CASES: dict[str, Case] = {
    "Bernoulli": Case(D.Bernoulli, {"probs": [0.2, 0.5, 0.9]}),
    "Bernoulli of logits": Case(D.Bernoulli, {"logits": [-1.0, 0.3, 2.0]}),
    "Beta": Case(D.Beta, {"concentration1": [0.7, 2.0, 5.0], "concentration0": [0.9, 3.0, 1.5]}),
    "Binomial": Case(D.Binomial, {"probs": [0.2, 0.5, 0.9]}, {"total_count": 12}),
    "Categorical": Case(D.Categorical, LOGITS),
    "Cauchy": Case(D.Cauchy, LOC_SCALE),
    "Chi2": Case(D.Chi2, {"df": [1.5, 3.0, 8.0]}),
    "ContinuousBernoulli": Case(D.ContinuousBernoulli, {"probs": [0.2, 0.6, 0.9]}),
    "Dirichlet": Case(D.Dirichlet, {"concentration": [[0.8, 2.0, 3.0], [4.0, 1.0, 0.9]]}),
    "Exponential": Case(D.Exponential, {"rate": [0.5, 1.0, 4.0]}),
    "FisherSnedecor": Case(D.FisherSnedecor, {"df1": [4.0, 6.0, 9.0], "df2": [9.0, 12.0, 20.0]}),
    "Gamma": Case(D.Gamma, {"concentration": [0.6, 2.0, 9.0], "rate": [0.5, 1.0, 3.0]}),
    # PyTorch compares its concentration with a float32 number.
    "GeneralizedPareto": Case(D.GeneralizedPareto, {**LOC_SCALE, "concentration": [0.05, 0.1, 0.2]}, reference=torch.float32),
    "Geometric": Case(D.Geometric, {"probs": [0.2, 0.5, 0.8]}),
    "Gumbel": Case(D.Gumbel, LOC_SCALE),
    "HalfCauchy": Case(D.HalfCauchy, {"scale": [0.5, 1.0, 3.0]}),
    "HalfNormal": Case(D.HalfNormal, {"scale": [0.5, 1.0, 3.0]}),
    "Independent": Case(independent, LOC_SCALE),
    "InverseGamma": Case(D.InverseGamma, {"concentration": [5.0, 6.0, 9.0], "rate": [0.5, 1.0, 3.0]}),
    "Kumaraswamy": Case(D.Kumaraswamy, {"concentration1": [0.9, 2.0, 3.0], "concentration0": [1.2, 3.0, 1.5]}),
    # Rounded to float32 its values are not valid in float64.
    "LKJCholesky": Case(D.LKJCholesky, {"concentration": 1.5}, {"dim": 3, "validate_args": False}),
    "Laplace": Case(D.Laplace, LOC_SCALE),
    "LogNormal": Case(D.LogNormal, {"loc": [-0.5, 0.0, 1.0], "scale": [0.2, 0.4, 0.5]}),
    "LogisticNormal": Case(D.LogisticNormal, {"loc": [-0.5, 0.0, 1.0], "scale": [0.2, 0.4, 0.5]}),
    "LowRankMultivariateNormal": Case(
        D.LowRankMultivariateNormal,
        {"loc": [0.0, 1.0, -1.0], "cov_factor": [[1.0], [0.5], [-0.4]], "cov_diag": [0.5, 1.0, 0.8]},
    ),
    "MixtureSameFamily": Case(mixture, {"logits": [0.1, -0.4, 1.2], **LOC_SCALE}),
    "Multinomial": Case(D.Multinomial, {"probs": [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]}, {"total_count": 7}),
    "MultivariateNormal": Case(D.MultivariateNormal, {"loc": [0.0, 1.0, -1.0], "scale_tril": MATRIX}),
    "NegativeBinomial": Case(D.NegativeBinomial, {"total_count": [2.0, 5.0, 9.0], "probs": [0.2, 0.5, 0.6]}),
    "Normal": Case(D.Normal, LOC_SCALE),
    "OneHotCategorical": Case(D.OneHotCategorical, LOGITS),
    "OneHotCategoricalStraightThrough": Case(D.OneHotCategoricalStraightThrough, LOGITS),
    "Pareto": Case(D.Pareto, {"scale": [0.5, 1.0, 3.0], "alpha": [4.0, 5.0, 9.0]}),
    "Poisson": Case(D.Poisson, {"rate": [0.5, 8.0, 40.0]}),
    "RelaxedBernoulli": Case(D.RelaxedBernoulli, {"temperature": 0.7, "probs": [0.2, 0.5, 0.9]}),
    "RelaxedOneHotCategorical": Case(D.RelaxedOneHotCategorical, {"temperature": 0.7, **LOGITS}),
    "StudentT": Case(D.StudentT, {"df": [5.0, 6.0, 9.0], **LOC_SCALE}),
    "TransformedDistribution": Case(transformed, LOC_SCALE),
    "Uniform": Case(D.Uniform, {"low": [-1.0, 0.0, 2.0], "high": [1.0, 0.5, 7.0]}),
    "VonMises": Case(D.VonMises, {"loc": [-0.5, 0.0, 2.0], "concentration": [0.5, 1.0, 6.0]}),
    "Weibull": Case(D.Weibull, {"scale": [0.5, 1.0, 3.0], "concentration": [1.2, 2.0, 4.0]}),
    "Wishart": Case(D.Wishart, {"df": 5.0, "scale_tril": MATRIX}),
}
ABSTRACT = {"Distribution", "ExponentialFamily"}


def named_distributions() -> set[str]:
    return {name for name in D.__all__ if isinstance(getattr(D, name), type) and issubclass(getattr(D, name), D.Distribution)} - ABSTRACT

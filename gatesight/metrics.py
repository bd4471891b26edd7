"""How well scores rank entries by their raw utility: overlap@k, coverage@k and Spearman ρ (Appendix C).

Each measure is a function over ``[..., n]`` tensors and a torchmetrics class with exact sum and count states. Equal values
rank by position, the earlier one first, so that every process and device agrees.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch
from torchmetrics import Metric

from gatesight.errors import GateSightError
from gatesight.selection import best_first

FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)


def top_count(n: int, fraction: float) -> int:
    """k = max(4, ⌊fraction·n⌋), at most n; the fraction is read as the decimal that it is written as."""
    return min(n, max(4, math.floor(Fraction(str(fraction)) * n)))


def ranks(values: torch.Tensor) -> torch.Tensor:
    """Rank of each of ``[..., n]``, 0 for the largest; of equal ones the earlier position ranks first."""
    order = best_first(values)
    return torch.empty_like(order).scatter_(
        -1, order, torch.arange(values.shape[-1], device=values.device).expand_as(order)
    )


def overlap_at_k(scores: torch.Tensor, utility: torch.Tensor, fractions: Sequence[float] = FRACTIONS) -> torch.Tensor:
    """|predicted top-k ∩ true top-k| / k.

    Args:
        scores: ``[..., n]``, higher is kept first.
        utility: ``[..., n]`` raw utility U.
        fractions: fractions of n that make k.

    Returns:
        ``[..., K]`` float64 in [0, 1], one value for each fraction.

    Raises:
        GateSightError: the shapes differ, there is no entry, or a value is NaN.

    Example:
        >>> overlap_at_k(torch.arange(8.0), torch.tensor([9.0, 0, 0, 0, 0, 5, 6, 7]), [0.5])
        tensor([0.7500], dtype=torch.float64)
    """
    n = _check(scores, utility)
    rank = ranks(utility).gather(-1, best_first(scores))  # true rank of the predicted first, second, …
    counts = [top_count(n, fraction) for fraction in fractions]
    return torch.stack([(rank[..., :k] < k).sum(-1, dtype=torch.float64) / k for k in counts], dim=-1)


def coverage_at_k(scores: torch.Tensor, utility: torch.Tensor, fractions: Sequence[float] = FRACTIONS) -> torch.Tensor:
    """Utility mass of the predicted top-k over that of the true top-k; 1 where there is no utility to lose (ours).

    Arguments, result and errors are those of :func:`overlap_at_k`.

    Example:
        >>> coverage_at_k(torch.arange(8.0), torch.tensor([9.0, 0, 0, 0, 0, 5, 6, 7]), [0.5])
        tensor([0.6667], dtype=torch.float64)
    """
    n = _check(scores, utility)
    utility = utility.double()
    predicted = utility.gather(-1, best_first(scores)).cumsum(-1)
    best = utility.sort(dim=-1, descending=True).values.cumsum(-1)
    last = torch.tensor([top_count(n, fraction) - 1 for fraction in fractions], device=scores.device)
    predicted, best = predicted[..., last], best[..., last]
    return torch.where(best > 0, predicted / best, 1.0)


def spearman(scores: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
    """Spearman ρ: Pearson correlation of average ranks; 0 where either side is constant (ours).

    Arguments and errors are those of :func:`overlap_at_k`.

    Returns:
        ``[...]`` float64 in [-1, 1].

    Example:
        >>> spearman(torch.tensor([1.0, 2, 3, 4]), torch.tensor([1.0, 3, 2, 4]))
        tensor(0.8000, dtype=torch.float64)
    """
    _check(scores, utility)
    x, y = _centred_ranks(scores), _centred_ranks(utility)
    norm = (x.square().sum(-1) * y.square().sum(-1)).sqrt()
    return torch.where(norm > 0, (x * y).sum(-1) / norm, 0.0)


def _check(scores: torch.Tensor, utility: torch.Tensor) -> int:
    if scores.shape != utility.shape or not scores.ndim or not scores.shape[-1]:
        raise GateSightError(
            f"scores {tuple(scores.shape)} and utility {tuple(utility.shape)} must have the same shape [..., n] with n ≥ 1."
        )
    if torch.isnan(scores).any() or torch.isnan(utility).any():
        raise GateSightError(
            f"{'scores' if torch.isnan(scores).any() else 'utility'} of shape {tuple(scores.shape)} hold NaN: they cannot be ranked."
        )
    return scores.shape[-1]


def _centred_ranks(values: torch.Tensor) -> torch.Tensor:
    """Average ranks minus their mean: equal values span [left, right) of the sorted row."""
    values = values.contiguous()
    ordered = values.sort(dim=-1).values
    left, right = (torch.searchsorted(ordered, values, right=side) for side in (False, True))
    return (left + right - values.shape[-1]).double() / 2


class RankingMeasure(Metric):
    """Mean of a measure over KV heads, then documents, kept by corpus and attention layer as exact float64 sums.

    ``compute`` gives ``overall [M]``, ``corpus [C, M]``, ``layer [L, M]`` and ``documents [C]``, where M counts the
    measure's values (one a fraction) and corpora without documents are NaN. Means run over documents, then layers.
    """

    is_differentiable = False
    higher_is_better = True
    full_state_update = False
    total: torch.Tensor
    documents: torch.Tensor

    def __init__(self, corpora: int, layers: int, fractions: Sequence[float] = FRACTIONS) -> None:
        super().__init__()
        self.fractions = tuple(fractions)
        values = len(self.names())
        self.add_state("total", torch.zeros(corpora, layers, values, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("documents", torch.zeros(corpora, dtype=torch.int64), dist_reduce_fx="sum")

    def names(self) -> list[str]:
        """A name for each of the M values."""
        raise NotImplementedError

    def measure(self, scores: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
        """``[L, H, M]`` values of one document."""
        raise NotImplementedError

    def update(self, scores: torch.Tensor, utility: torch.Tensor, corpus: int) -> None:
        """Add a document: scores and raw utility ``[L, H, n]`` of the entries behind its prefix."""
        self.total[corpus] += self.measure(scores, utility).mean(1)
        self.documents[corpus] += 1

    def compute(self) -> dict[str, torch.Tensor]:
        by_layer = self.total.sum(0) / self.documents.sum()
        by_corpus = self.total.mean(1) / self.documents[:, None]
        return {"overall": by_layer.mean(0), "corpus": by_corpus, "layer": by_layer, "documents": self.documents}


class OverlapAtK(RankingMeasure):
    """:func:`overlap_at_k` by corpus and layer."""

    def names(self) -> list[str]:
        return [f"overlap_at_{percent(fraction)}" for fraction in self.fractions]

    def measure(self, scores: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
        return overlap_at_k(scores, utility, self.fractions)


class CoverageAtK(RankingMeasure):
    """:func:`coverage_at_k` by corpus and layer."""

    def names(self) -> list[str]:
        return [f"coverage_at_{percent(fraction)}" for fraction in self.fractions]

    def measure(self, scores: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
        return coverage_at_k(scores, utility, self.fractions)


class Spearman(RankingMeasure):
    """:func:`spearman` by corpus and layer."""

    def names(self) -> list[str]:
        return ["spearman"]

    def measure(self, scores: torch.Tensor, utility: torch.Tensor) -> torch.Tensor:
        return spearman(scores, utility)[..., None]


def percent(fraction: float) -> str:
    """``0.1`` -> ``"10"``, ``0.005`` -> ``"0.5"``."""
    return f"{fraction * 100:g}"

"""The measures equal a plain-Python reference on ties, constants and short documents, and their sums are exact."""

from __future__ import annotations

import doctest
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import gatesight.metrics
from gatesight import GateSightError
from gatesight.metrics import (
    FRACTIONS,
    CoverageAtK,
    OverlapAtK,
    Spearman,
    coverage_at_k,
    overlap_at_k,
    spearman,
    top_count,
)

VALUES = st.lists(st.tuples(st.integers(-3, 3), st.integers(0, 4)), min_size=1, max_size=60)
"""Pairs of score and utility from few values, so that most of them tie."""


def top(values: list[float], k: int) -> list[int]:
    return sorted(range(len(values)), key=lambda i: (-values[i], i))[:k]


def count(n: int, fraction: float) -> int:
    return min(n, max(4, math.floor(Fraction(str(fraction)) * n)))


@settings(deadline=None, max_examples=200)
@given(pairs=VALUES)
def test_overlap_and_coverage_equal_the_reference(pairs: list[tuple[int, int]]) -> None:
    scores, utility = ([float(p[i]) for p in pairs] for i in (0, 1))
    found = overlap_at_k(torch.tensor(scores), torch.tensor(utility)).tolist()
    covered = coverage_at_k(torch.tensor(scores), torch.tensor(utility)).tolist()
    for i, fraction in enumerate(FRACTIONS):
        k = count(len(pairs), fraction)
        predicted, best = top(scores, k), top(utility, k)
        assert found[i] == len(set(predicted) & set(best)) / k
        mass = sum(utility[j] for j in best)
        expected = sum(utility[j] for j in predicted) / mass if mass else 1.0
        assert covered[i] == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=200)
@given(pairs=VALUES)
def test_spearman_equals_scipy(pairs: list[tuple[int, int]]) -> None:
    scores, utility = ([float(p[i]) for p in pairs] for i in (0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scipy warns of constant input
        expected = spearmanr(scores, utility).statistic if len(pairs) > 1 else math.nan
    found = spearman(torch.tensor(scores), torch.tensor(utility)).item()
    assert found == pytest.approx(0.0 if math.isnan(expected) else expected, abs=1e-12)


def test_batches_are_measured_row_by_row() -> None:
    scores, utility = torch.randn(3, 2, 50), torch.rand(3, 2, 50)
    for measure in (overlap_at_k, coverage_at_k, spearman):
        rows = [[measure(scores[i, j], utility[i, j]) for j in range(2)] for i in range(3)]
        expected = torch.stack([torch.stack(row) for row in rows])
        torch.testing.assert_close(measure(scores, utility), expected)


@pytest.mark.parametrize(
    ("n", "fraction", "k"), [(1, 0.1, 1), (3, 0.5, 3), (39, 0.1, 4), (100, 0.29, 29), (1000, 0.01, 10), (50, 0.1, 5)]
)
def test_k_is_exact(n: int, fraction: float, k: int) -> None:
    assert top_count(n, fraction) == k


def test_equal_scores_rank_by_position() -> None:
    utility = torch.tensor([5.0, 4, 3, 2, 1, 0, 0, 0])
    assert overlap_at_k(torch.zeros(8), utility, [0.5]).item() == 1
    assert overlap_at_k(torch.zeros(8), utility.flip(0), [0.5]).item() == 0


@pytest.mark.parametrize("measure", [overlap_at_k, coverage_at_k, spearman])
def test_nan_and_wrong_shapes_are_refused(measure: object) -> None:
    assert callable(measure)
    with pytest.raises(GateSightError, match=r"scores of shape .* hold NaN"):
        measure(torch.tensor([1.0, math.nan]), torch.zeros(2))
    with pytest.raises(GateSightError, match=r"utility of shape .* hold NaN"):
        measure(torch.zeros(2), torch.tensor([1.0, math.nan]))
    with pytest.raises(GateSightError, match="same shape"):
        measure(torch.zeros(2), torch.zeros(3))
    with pytest.raises(GateSightError, match="n ≥ 1"):
        measure(torch.zeros(0), torch.zeros(0))


def test_classes_average_over_heads_then_documents_then_layers() -> None:
    generator = torch.Generator().manual_seed(0)
    documents = [
        (c, torch.rand(2, 3, n, generator=generator), torch.rand(2, 3, n, generator=generator))
        for c, n in ((0, 40), (0, 70), (2, 5))
    ]
    for kind, measure in ((OverlapAtK, overlap_at_k), (CoverageAtK, coverage_at_k), (Spearman, spearman)):
        whole, halves = kind(3, 2), [kind(3, 2), kind(3, 2)]
        for i, (corpus, scores, utility) in enumerate(documents):
            whole.update(scores, utility, corpus)
            halves[i % 2].update(scores, utility, corpus)
        values = np.stack([measure(s, u).mean(1).reshape(2, -1).numpy() for _, s, u in documents])  # [N, L, M]
        found = whole.compute()
        np.testing.assert_allclose(found["overall"], values.mean((0, 1)))
        np.testing.assert_allclose(found["layer"], values.mean(0))
        np.testing.assert_allclose(found["corpus"][0], values[:2].mean((0, 1)))
        assert found["corpus"][1].isnan().all()
        np.testing.assert_allclose(found["corpus"][2], values[2].mean(0))
        assert found["documents"].tolist() == [2, 0, 1]
        total = halves[0].total + halves[1].total  # what ranks do
        torch.testing.assert_close(total, whole.total)


def test_examples() -> None:
    assert doctest.testmod(gatesight.metrics).failed == 0

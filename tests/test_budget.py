"""Budgets: totals hold exactly, no layer is overfull, shares follow the weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gatesight import GateSightError, allocate, select

gates = st.lists(st.floats(0, 1), min_size=1, max_size=64)
rules = st.sampled_from(["gate", "flat", "pyramid"])


@given(gate=gates, n_body=st.integers(0, 300_000), p=st.floats(0, 1), rule=rules)
def test_total_is_exact_and_no_layer_is_overfull(gate: list[float], n_body: int, p: float, rule: str) -> None:
    kept = allocate(gate, n_body, p, rule)
    assert kept.dtype == torch.int64
    assert int(kept.sum()) == len(gate) * round(p * n_body)
    assert int(kept.min()) >= 0
    assert int(kept.max()) <= n_body


@given(gate=st.lists(st.floats(0.01, 1), min_size=2, max_size=16), n_body=st.integers(1, 10_000), p=st.floats(0, 1))
def test_open_layers_stay_in_proportion(gate: list[float], n_body: int, p: float) -> None:
    """An independent criterion of water-filling: one level λ with K_l = min(n, λ w_l) within one entry."""
    kept = allocate(gate, n_body, p).double()
    weights = torch.tensor(gate, dtype=torch.float64)
    low, high = 0.0, n_body / weights.min().item() + 1
    for _ in range(200):
        level = (low + high) / 2
        if (level * weights).clamp(max=n_body).sum() < kept.sum():
            low = level
        else:
            high = level
    assert ((high * weights).clamp(max=n_body) - kept).abs().max() <= 1 + 1e-6


def test_pyramid_decreases_arithmetically_from_twice_the_mean() -> None:
    kept = allocate([1.0] * 16, 100_000, 0.1, "pyramid")
    steps = kept.diff()
    assert kept[0] == round(1.95 * 10_000)
    assert kept[-1] == round(0.05 * 10_000)
    assert steps.max() - steps.min() <= 1


def test_layers_without_gate_take_what_full_layers_cannot() -> None:
    assert allocate([1.0, 0.0, 0.0], 100, 0.5).tolist() == [100, 25, 25]


@pytest.mark.parametrize(
    ("gate", "n_body", "p", "rule"),
    [
        ([], 10, 0.5, "gate"),
        ([1.0], -1, 0.5, "gate"),
        ([1.0], 10, 1.5, "gate"),
        ([1.0], 10, float("nan"), "gate"),
        ([float("nan")], 10, 0.5, "gate"),
        ([-1.0], 10, 0.5, "gate"),
        ([1.0], 10, 0.5, "steep"),
    ],
)
def test_bad_arguments_are_refused(gate: list[float], n_body: int, p: float, rule: str) -> None:
    with pytest.raises(GateSightError):
        allocate(gate, n_body, p, rule)


@given(st.data())
def test_select_keeps_the_prefix_and_the_best(data: st.DataObject) -> None:
    layers, heads, n = (data.draw(st.integers(1, high)) for high in (3, 3, 40))
    protected = data.draw(st.integers(0, n))
    values = st.lists(st.integers(0, 5), min_size=n, max_size=n)  # many ties
    scores = torch.tensor([[data.draw(values) for _ in range(heads)] for _ in range(layers)], dtype=torch.float32)
    kept = torch.tensor([data.draw(st.integers(0, n - protected)) for _ in range(layers)])
    for layer, keep in enumerate(select(scores, kept, protected)):
        for head in range(heads):
            row = scores[layer, head].tolist()
            body = sorted(range(protected, n), key=lambda i: (-row[i], i))[: int(kept[layer])]
            assert keep[head].tolist() == [*range(protected), *sorted(body)]


def test_select_refuses_nan_and_overfull_budgets() -> None:
    with pytest.raises(GateSightError, match="NaN"):
        select(torch.full((1, 1, 4), float("nan")), torch.tensor([2]), 0)
    with pytest.raises(GateSightError, match="do not fit"):
        select(torch.zeros(1, 1, 4), torch.tensor([4]), 1)

"""Labels: in [0, 1], in the order of utility, each as its definition says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatesight.labels import LABELS, log_normalised, max_normalised, top_shares


@settings(deadline=None, max_examples=50)
@given(values=st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=300), name=st.sampled_from(sorted(LABELS)))
def test_labels_lie_between_0_and_1_and_never_turn_the_order_around(values: list[float], name: str) -> None:
    utility = torch.tensor([values, values[::-1]])
    label = LABELS[name](utility)
    assert label.shape == utility.shape
    assert float(label.min()) >= 0
    assert float(label.max()) <= 1 + 1e-6
    ordered = label[0][utility[0].sort(descending=True, stable=True).indices]
    assert (ordered.diff() <= 1e-6).all()


def test_definitions() -> None:
    utility = torch.tensor([[4.0, 1.0, 0.0, 2.0]])
    assert max_normalised(utility).tolist() == [[1, 0.25, 0, 0.5]]
    assert log_normalised(utility)[0, 1] == pytest.approx(math.log(251) / math.log(1001))
    assert not max_normalised(torch.zeros(1, 3)).any()


def test_top_shares_count_the_top_sets_an_entry_is_in() -> None:
    n = 1000
    utility = torch.rand(n, generator=torch.Generator().manual_seed(0))
    label = top_shares(utility)
    ranked = label[utility.argsort(descending=True)]
    expected = [sum(rank < fraction * n for fraction in (0.01, 0.05, 0.1, 0.2, 0.5)) / 5 for rank in range(n)]
    assert ranked.tolist() == pytest.approx(expected)

"""Age features are sane at every length; windows are the GDN layers just before an attention layer."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatesight.features import age_features, window_columns
from tests.synthetic import layout


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 262_144))
def test_age_features_are_bounded_distinct_and_exact(n: int) -> None:
    positions = torch.unique(torch.tensor([0, 1, n // 3, n // 2, n - 2, n - 1]).clamp(0, n - 1))
    found = age_features(positions, n)
    i, m = positions.double(), max(n - 1, 1)
    d = n - 1 - i
    expected = torch.stack([d / m, d.log1p() / torch.tensor(float(m)).double().log1p(), 1 / (1 + i)], dim=-1)
    assert found.dtype == torch.float32
    assert ((found >= 0) & (found <= 1)).all()
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-7)
    assert len(torch.unique(found, dim=0)) == len(positions)


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 5000), cut=st.floats(0, 1))
def test_a_chunk_has_the_features_of_the_whole(n: int, cut: float) -> None:
    start = int(cut * n)
    assert torch.equal(age_features(torch.arange(start, n), n), age_features(torch.arange(n), n)[start:])


@settings(deadline=None, max_examples=60)
@given(groups=st.integers(1, 6), heads=st.sampled_from([3, 6]), width=st.integers(1, 30))
def test_window_columns_are_the_windows(groups: int, heads: int, width: int) -> None:
    shape = layout(groups, heads)
    g = len(shape.gdn_layers)
    signals = torch.arange(2 * g * heads * 3).reshape(2, g, heads, 3)
    for columns, window in zip(window_columns(shape, width), shape.windows(width), strict=True):
        assert torch.equal(signals.flatten(1)[:, columns], signals[:, list(window)].flatten(1))
        assert len(window) == min(width, 3 * (shape.windows(width).index(window) + 1))


def test_an_attention_layer_without_a_gdn_layer_before_it_reads_none() -> None:
    shape = layout(1)
    early = type(shape).from_dict({**shape.to_dict(), "gdn_layers": [1, 2, 3], "attention_layers": [0]})
    assert window_columns(early, 6) == [slice(0, 0)]

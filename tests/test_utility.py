"""The closed form equals removing the entry for real, also where an entry holds almost a whole row."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gatesight.utility import influence, utility


def removed_for_real(logits: torch.Tensor, values: torch.Tensor, w_o: torch.Tensor, entries: int) -> torch.Tensor:
    """Float64 oracle: delete entry i from logits and values, attend again, project all heads, compare the outputs."""
    logits, values, w_o = logits.double(), values.double(), w_o.double()

    def output(logits: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        heads = logits.softmax(-1) @ values  # [J, T, D]
        return heads.transpose(0, 1).flatten(1) @ w_o.flatten(0, 1)  # [T, hidden]

    whole = output(logits, values)
    result = torch.empty(logits.shape[1], entries, dtype=torch.float64)
    for i in range(entries):
        rest = [k for k in range(logits.shape[2]) if k != i]
        result[:, i] = (output(logits[:, :, rest], values[rest]) - whole).norm(dim=-1)
    return result


def case(heads: int, rows: int, n: int, dim: int, hidden: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Logits with a causal end, values and projections; the last ``rows`` entries are the continuation's own."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(heads, rows, n + rows, generator=generator) * 2
    logits = logits.masked_fill(torch.arange(n + rows) > n + torch.arange(rows)[:, None], -torch.inf)
    values = torch.randn(n + rows, dim, generator=generator)
    w_o = torch.randn(heads, dim, hidden, generator=generator) / (heads * dim) ** 0.5
    return logits, values, w_o


def assert_exact(logits: torch.Tensor, values: torch.Tensor, w_o: torch.Tensor, n: int, tolerance: float) -> None:
    expected = removed_for_real(logits, values, w_o, n)
    found = influence(logits, values, w_o, n).double()
    rounding = (
        1e-14 * w_o.double().abs().amax() * values.double().abs().amax() * values.shape[1]
    )  # of the oracle itself
    assert (found - expected).abs().max() <= tolerance * expected.max() + rounding


@settings(deadline=None, max_examples=60)
@given(
    heads=st.integers(1, 6),
    rows=st.integers(1, 5),
    n=st.integers(1, 24),
    dim=st.integers(1, 16),
    hidden=st.integers(1, 40),
    spread=st.sampled_from([0.1, 1.0, 5.0, 20.0]),
    offset=st.sampled_from([0.0, 10.0]),
    seed=st.integers(0, 2**20),
)
def test_closed_form_equals_removal(
    heads: int, rows: int, n: int, dim: int, hidden: int, spread: float, offset: float, seed: int
) -> None:
    logits, values, w_o = case(heads, rows, n, dim, hidden, seed)
    assert_exact(logits * spread, values + offset, w_o, n, 1e-5)
    assert_exact(logits.double() * spread, values.double() + offset, w_o.double(), n, 1e-9)


@pytest.mark.parametrize("gap", [11.5, 25.0, 60.0, 200.0])  # 1 - a = 1e-5, 1e-11, a rounds to 1, the rest underflows
def test_an_entry_that_holds_a_whole_row(gap: float) -> None:
    """Real dims of a 27B model: 6 query heads of 256 on one KV head, hidden 5120."""
    logits, values, w_o = case(heads=6, rows=12, n=40, dim=256, hidden=5120)
    logits[:3, 4, 7] = logits[:3, 4].max() + gap  # three heads of the group
    logits[5, 9, 30] = logits[5, 9].max() + gap
    logits[0, 2, 45] = logits[0, 2, :43].max() + gap  # an entry of the continuation, which is not judged
    logits[0, 2, 43:] = -torch.inf
    logits[0, 2, 41] = 30.0 + gap
    assert_exact(logits, values, w_o, 40, 1e-5)
    assert_exact(logits, values + 10, w_o, 40, 1e-5)


def test_utility_is_the_largest_influence_over_rows() -> None:
    logits, values, w_o = case(3, 9, 20, 8, 24)
    expected = removed_for_real(logits, values, w_o, 20).amax(0)
    torch.testing.assert_close(utility(logits, values, w_o, 20).double(), expected, rtol=1e-5, atol=1e-6)


def test_an_entry_that_no_row_sees_is_worth_nothing() -> None:
    logits, values, w_o = case(2, 3, 10, 4, 12)
    logits[:, :, 6] = -torch.inf
    assert utility(logits, values, w_o, 10)[6] == 0

"""The predictors of Tables 1 and 5: each against its plain definition, ridge against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.linear_model
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from gatesight import GateSightError, HybridLayout
from gatesight.features import age_features, window_columns
from gatesight.methods.best_cell import BestCell, find_best_cells
from gatesight.methods.ridge import PENALTIES, Ridge, solve_ridge
from gatesight.methods.window_mean import QUANTITIES, WindowMean, slow_heads
from gatesight.metrics import overlap_at_k
from models.predictors import LEARNED, PREDICTORS, check, native
from tests.synthetic import TINY

LAYOUT = HybridLayout.from_dict(TINY.to_dict())
G, V, L, H = len(LAYOUT.gdn_layers), LAYOUT.value_heads, len(LAYOUT.attention_layers), LAYOUT.kv_heads


def signals(n: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    beta, g, v = (torch.rand(n, G, V, generator=random) for _ in range(3))
    return torch.stack([beta, -g, 1 + v], -1)


@pytest.mark.parametrize("quantity", QUANTITIES)
@pytest.mark.parametrize("slow", [False, True])
def test_window_mean_is_the_mean_over_the_windows_heads(quantity: str, slow: bool) -> None:
    x, width = signals(7), 2
    heads = torch.zeros(G, V, dtype=torch.bool)
    heads[:, 0] = True
    scores = WindowMean(LAYOUT, width, quantity, heads if slow else None).score(x)
    meaning = {
        "beta": lambda b, g, v: b,
        "forget": lambda b, g, v: -g,
        "retention": lambda b, g, v: np.exp(g),
        "v_norm": lambda b, g, v: v,
        "write": lambda b, g, v: b * v,
    }[quantity]
    for layer, window in enumerate(LAYOUT.windows(width)):
        for i in range(len(x)):
            chosen = [meaning(*map(float, x[i, g, h])) for g in window for h in range(V) if heads[g, h] or not slow]
            for head in range(H):
                assert float(scores[layer, head, i]) == pytest.approx(np.mean(chosen), rel=1e-5)


def test_forget_and_retention_of_one_head_rank_in_opposite_ways() -> None:
    one = torch.zeros(G, V, dtype=torch.bool)
    one[0, 0] = True
    forget, retention = (WindowMean(LAYOUT, G, q, one).score(signals(50))[0, 0] for q in ("forget", "retention"))
    assert torch.equal(forget.argsort(), retention.argsort().flip(0))


def test_a_window_without_a_slow_head_scores_zero() -> None:
    none = torch.zeros(G, V, dtype=torch.bool)
    assert not WindowMean(LAYOUT, 3, "write", none).score(signals(5)).any()


def test_slow_heads_fall_back_to_the_slowest() -> None:
    half_life = torch.arange(100.0).reshape(10, 10)
    assert slow_heads(half_life, 90).sum() == 10
    assert slow_heads(half_life, 1000).sum() == 13


def test_best_cells_have_the_best_mean_overlap_of_all() -> None:
    documents = [(signals(n, n), torch.rand(L, H, n)) for n in (40, 61, 80)]
    cells = find_best_cells(documents)
    for layer in range(L):
        for head in range(H):
            overlap = [
                np.mean(
                    [
                        float(overlap_at_k((x[..., 0] * x[..., 2]).flatten(1)[:, cell], u[layer, head], [0.1]))
                        for x, u in documents
                    ]
                )
                for cell in range(G * V)
            ]
            assert overlap[int(cells[layer, head])] == pytest.approx(max(overlap))
    x = documents[0][0]
    assert torch.equal(BestCell(cells).score(x)[1, 0], (x[..., 0] * x[..., 2]).flatten(1)[:, cells[1, 0]])


@settings(deadline=None, max_examples=30)
@given(
    rows=st.integers(15, 60),
    inputs=st.integers(1, 10),
    noise=st.floats(0.01, 10),
    offset=st.floats(-100, 100),
    seed=st.integers(0, 1000),
)
def test_ridge_is_scikit_learns_at_the_penalty_of_least_gcv(
    rows: int, inputs: int, noise: float, offset: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    x = random.normal(offset, random.uniform(0.1, 5, inputs), (rows, inputs))
    y = x @ random.normal(size=(inputs, 2)) + noise * random.normal(size=(rows, 2))
    z = torch.from_numpy(np.concatenate([x, np.ones((rows, 1)), y], 1))
    weights = solve_ridge(z.T @ z, 2).numpy()

    standard = StandardScaler().fit_transform(x)
    for target in range(2):
        penalty = min((rows * PENALTIES).tolist(), key=lambda a, t=target: gcv(standard, y[:, t], a))
        reference = sklearn.linear_model.Ridge(penalty).fit(standard, y[:, target]).predict(standard)
        predicted = x @ weights[:-1, target] + weights[-1, target]
        np.testing.assert_allclose(predicted, reference, atol=1e-4 * np.abs(y[:, target]).max())


def gcv(x: np.ndarray, y: np.ndarray, penalty: float) -> float:
    """n · RSS / (n − df)² by the hat matrix, constant included."""
    n = len(x)
    hat = x @ np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T) + 1 / n
    return float(n * np.square(y - hat @ y).sum() / (n - np.trace(hat)) ** 2)


def test_constant_inputs_get_no_weight() -> None:
    x = torch.cat([torch.rand(30, 2), torch.full((30, 1), 0.1)], 1).double()
    z = torch.cat([x, torch.ones(30, 1), x[:, :1]], 1)
    weights = solve_ridge(z.T @ z, 1)
    assert weights[2] == 0
    assert torch.allclose(weights[0], torch.ones(1).double(), atol=1e-3)


def test_a_folds_ridge_never_sees_the_corpus_held_out() -> None:
    def fitted(perturbed: float) -> Ridge:
        ridge = Ridge(window_columns(LAYOUT, 2), H, torch.tensor([[True, True], [True, False]]))
        for corpus, n in ((0, 60), (1, 50), (0, 70)):
            label = torch.rand(L, H, n, generator=torch.Generator().manual_seed(n))
            x = signals(n, n) + (perturbed if corpus == 1 else 0)
            ridge.add(x, age_features(torch.arange(n), n), label, corpus)
        ridge.solve()
        return ridge

    x, age = signals(20), age_features(torch.arange(20), 20)
    first, second = fitted(0.0), fitted(0.5)
    assert torch.equal(first(x, age, 1), second(x, age, 1))
    assert not torch.allclose(first(x, age, 0), second(x, age, 0))


def test_every_predictor_has_scores_of_its_own_and_unknown_ones_are_refused() -> None:
    slow = torch.zeros(G, V, dtype=torch.bool)
    slow[:, 1] = True
    x = signals(30)
    for name in PREDICTORS.keys() - set(LEARNED):
        assert native(name, LAYOUT, 2, slow).score(x).shape == (L, H, 30)
    assert len({(p.colour, p.marker) for p in PREDICTORS.values()}) == len(PREDICTORS)
    with pytest.raises(GateSightError, match="no predictor is called magic"):
        check(["gatesight", "magic"])
    with pytest.raises(GateSightError, match="lacks 'gatesight'"):
        check(["ridge"])

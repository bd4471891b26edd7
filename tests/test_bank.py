"""The bank is nothing but many separate MLPs: same start, same gradients, same clipping, same steps."""

from __future__ import annotations

import hashlib

import pytest
import torch
from torch import nn

from gatesight.bank import EstimatorBank
from gatesight.features import window_columns
from tests.synthetic import layout

SHAPE = layout(groups=4, value_heads=3, kv_heads=4)
FOLDS = ["a", "b", "c", "none"]  # 4 folds × 4 layers × 4 heads = 64 MLPs
SIGNALS = len(SHAPE.gdn_layers) * SHAPE.value_heads * 3


def bank(folds: list[str] = FOLDS) -> EstimatorBank:
    return EstimatorBank(window_columns(SHAPE, 6), SIGNALS, SHAPE.kv_heads, folds, hidden=16, seed=0)


def separate(made: EstimatorBank) -> dict[tuple[int, int, int], nn.Sequential]:
    """Plain MLPs, initialised by ``nn.Linear`` itself."""
    modules = {}
    for f, fold in enumerate(made.folds):
        for layer, window in enumerate(made.columns):
            for head in range(made.heads):
                digest = hashlib.sha256(f"0/{fold}/{layer}/{head}".encode()).digest()
                torch.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
                first = nn.Linear(window.stop - window.start + 3, 16)
                modules[f, layer, head] = nn.Sequential(first, nn.ReLU(), nn.Linear(16, 1))
    return modules


def parameters(made: EstimatorBank, key: tuple[int, int, int]) -> list[torch.Tensor]:
    f, layer, h = key
    return [made.w1[layer][f, :, h].T, made.b1[layer][f, h], made.w2[layer][f, h][None], made.b2[layer][f, h][None]]


def inputs(made: EstimatorBank, key: tuple[int, int, int], signals: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
    f, layer, _ = key
    x = (torch.cat([signals, age], dim=1) - made.shift[f]) * made.scale[f]
    return torch.cat([x[:, :-3][:, made.columns[layer]], x[:, -3:]], dim=1)


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    rows = 40
    counts = torch.rand(len(FOLDS), rows, generator=generator) < 0.7  # each fold trains on its own rows
    return (
        torch.randn(rows, SIGNALS, generator=generator),
        torch.rand(rows, 3, generator=generator),
        torch.rand(4, SHAPE.kv_heads, rows, generator=generator),
        counts.float(),
    )


def test_training_equals_64_separate_modules(data: tuple[torch.Tensor, ...]) -> None:
    signals, age, label, counts = data
    together = bank()
    generator = torch.Generator().manual_seed(2)
    together.shift.copy_(torch.randn(together.shift.shape, generator=generator))
    together.scale.copy_(torch.rand(together.scale.shape, generator=generator) + 0.5)
    alone = separate(together)
    assert len(alone) == 64
    optimiser = torch.optim.AdamW(together.parameters(), lr=2e-3, weight_decay=1e-2)
    optimisers = {key: torch.optim.AdamW(m.parameters(), lr=2e-3, weight_decay=1e-2) for key, m in alone.items()}
    clipped = 0
    for _ in range(5):
        optimiser.zero_grad()
        logits = together(signals, age)
        losses = nn.functional.binary_cross_entropy_with_logits(logits, label.expand_as(logits), reduction="none")
        (
            30 * losses * (counts / counts.sum(1, keepdim=True))[:, None, None]
        ).sum().backward()  # so that some are clipped
        together.clip_gradients(1.0)
        optimiser.step()
        for key, module in alone.items():
            f, layer, head = key
            optimisers[key].zero_grad()
            own = counts[f].bool()
            logit = module(inputs(together, key, signals, age)).squeeze(1)
            torch.testing.assert_close(logits[key], logit, rtol=1e-4, atol=1e-5)
            loss = nn.functional.binary_cross_entropy_with_logits(logit[own], label[layer, head][own])
            (30 * loss).backward()
            clipped += int(nn.utils.clip_grad_norm_(module.parameters(), 1.0) > 1)
            optimisers[key].step()
            for mine, theirs in zip(parameters(together, key), module.parameters(), strict=True):
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-5)
    assert clipped > 0


def test_clipping_equals_clip_grad_norm(data: tuple[torch.Tensor, ...]) -> None:
    together = bank()
    for i, parameter in enumerate(together.parameters()):
        parameter.grad = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)) * 0.04
    norms = {}
    alone = separate(together)
    for key, module in alone.items():
        gradients = [
            p.grad for p in (together.w1[key[1]], together.b1[key[1]], together.w2[key[1]], together.b2[key[1]])
        ]
        f, _, h = key
        parts = [gradients[0][f, :, h].T, gradients[1][f, h], gradients[2][f, h][None], gradients[3][f, h][None]]
        for parameter, part in zip(module.parameters(), parts, strict=True):
            parameter.grad = part.clone()
        norms[key] = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    together.clip_gradients(1.0)
    assert min(norms.values()) < 1 < max(norms.values())
    for (f, layer, h), module in alone.items():
        w1 = together.w1[layer].grad
        assert w1 is not None
        torch.testing.assert_close(w1[f, :, h].T, module[0].weight.grad)


def test_an_mlp_starts_alike_in_whatever_bank() -> None:
    everything, one = bank(), bank(["c"])
    for layer in range(4):
        for mine, theirs in zip(
            (everything.w1, everything.b1, everything.w2, everything.b2), (one.w1, one.b1, one.w2, one.b2), strict=True
        ):
            assert torch.equal(mine[layer][2], theirs[layer][0])
    assert not torch.equal(everything.w1[0][0], everything.w1[0][1])


def test_one_fold_alone_gives_its_row(data: tuple[torch.Tensor, ...]) -> None:
    signals, age, *_ = data
    made = bank()
    torch.testing.assert_close(made(signals, age, fold=1)[0], made(signals, age)[1])


def test_the_first_layers_have_no_parameters_for_missing_slots() -> None:
    assert [w.shape[1] for w in bank().w1] == [3 * 9 + 3, 6 * 9 + 3, 6 * 9 + 3, 6 * 9 + 3]


def test_no_rows_give_no_gradient() -> None:
    made = bank()
    made(torch.empty(0, SIGNALS), torch.empty(0, 3)).sum().backward()
    assert all(p.grad is not None and not p.grad.any() for p in made.parameters())

"""Generation from a compacted cache equals attention with the same entries hidden by a per-layer, per-head mask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from gatesight import Estimator, GateSightError, HybridLayout, allocate
from gatesight.hf import CompactedContext
from models.estimator_module import EstimatorModule
from tests.models import random_model

CONTEXT, QUESTION = 60, 7


@pytest.fixture(scope="module", params=["qwen3_5", "qwen3_next"])
def model(request: pytest.FixtureRequest) -> transformers.PreTrainedModel:
    return random_model(request.param, peak=12)


@pytest.fixture
def tokens() -> torch.Tensor:
    return torch.randint(0, 128, (3, CONTEXT + QUESTION), generator=torch.Generator().manual_seed(1))


def keep_sets(layout: HybridLayout, counts: list[int]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    draw = [
        [torch.randperm(CONTEXT, generator=generator)[:k].sort().values for _ in range(layout.kv_heads)] for k in counts
    ]
    return [torch.stack(rows) for rows in draw]


@contextmanager
def hidden(model: transformers.PreTrainedModel, keep: list[torch.Tensor]) -> Iterator[None]:
    """An independent witness: eager attention over the whole sequence, queries after the context see kept entries only."""
    layout = HybridLayout.from_config(model.config)

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any) -> Any:
        length = query.shape[2]
        visible = torch.ones(length, length, dtype=torch.bool).tril().expand(layout.kv_heads, -1, -1).clone()
        layer = layout.attention_layers.index(module.layer_idx)
        for head in range(layout.kv_heads):
            gone = sorted(set(range(CONTEXT)) - set(keep[layer][head].tolist()))
            visible[head, CONTEXT:, gone] = False
        visible = visible.repeat_interleave(layout.group, 0)
        key, value = (x.repeat_interleave(layout.group, 1) for x in (key, value))
        weights = (query @ key.transpose(2, 3) * scaling).masked_fill(~visible, -torch.inf).softmax(-1)
        return (weights @ value).transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS.register("witness", attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register("witness", sdpa_mask)
    model.set_attn_implementation("witness")
    try:
        yield
    finally:
        model.set_attn_implementation("sdpa")


def greedy(model: transformers.PreTrainedModel, row: torch.Tensor, new: int) -> torch.Tensor:
    for _ in range(new):
        row = torch.cat([row, model(row[None], use_cache=False).logits[0, -1].argmax()[None]])
    return row[-new:]


@torch.no_grad()
def test_compacted_generation_equals_masked_attention(
    model: transformers.PreTrainedModel, tokens: torch.Tensor
) -> None:
    layout = HybridLayout.from_config(model.config)
    keep = keep_sets(layout, [13, 29])
    context = CompactedContext(model, tokens[0, :CONTEXT])
    full = context.kv_bytes
    context.compact(keep)
    assert context.kv_bytes == full * (13 + 29) // (2 * CONTEXT)
    question = tokens[0, CONTEXT:]
    with hidden(model, keep):
        expected = greedy(model, tokens[0], 6)
        reference = model(torch.cat([tokens[0], expected])[None], use_cache=False).logits[0, -7:-1]
    answer = context.generate(question[None], max_new_tokens=6, do_sample=False)
    assert answer[0].tolist() == expected.tolist()
    whole = model(torch.cat([tokens[0], expected])[None], use_cache=False).logits[0, -7:-1]
    assert (whole - reference).abs().max() > 0.05  # the evicted entries mattered


@torch.no_grad()
def test_keeping_everything_equals_plain_generation(model: transformers.PreTrainedModel, tokens: torch.Tensor) -> None:
    layout = HybridLayout.from_config(model.config)
    context = CompactedContext(model, tokens[0, :CONTEXT])
    context.compact([torch.arange(CONTEXT).expand(layout.kv_heads, -1)] * 2)
    prompt = {"input_ids": tokens[:1], "attention_mask": torch.ones_like(tokens[:1])}  # the context holds pad ids
    plain = model.generate(**prompt, max_new_tokens=8, do_sample=False)[:, tokens.shape[1] :]
    assert context.generate(tokens[:1, CONTEXT:], max_new_tokens=8, do_sample=False).tolist() == plain.tolist()


@torch.no_grad()
def test_questions_do_not_see_each_other(model: transformers.PreTrainedModel, tokens: torch.Tensor) -> None:
    context = CompactedContext(model, tokens[0, :CONTEXT])
    context.compact(keep_sets(context.layout, [20, 20]))
    questions = tokens[:, CONTEXT:]
    alone = [context.generate(q[None], max_new_tokens=5, do_sample=False)[0].tolist() for q in questions]
    backwards = [context.generate(q[None], max_new_tokens=5, do_sample=False)[0].tolist() for q in questions.flip(0)]
    together = context.generate(questions, max_new_tokens=5, do_sample=False).tolist()
    assert alone == backwards[::-1] == together


@torch.no_grad()
def test_keep_sets_that_do_not_fit_leave_the_cache_whole(
    model: transformers.PreTrainedModel, tokens: torch.Tensor
) -> None:
    context = CompactedContext(model, tokens[0, :CONTEXT])
    full = context.kv_bytes
    for keep in (
        [torch.zeros(2, 1, dtype=torch.long)],
        [torch.full((2, 1), CONTEXT)] * 2,
        [torch.zeros(3, 1, dtype=torch.long)] * 2,
    ):
        with pytest.raises(GateSightError):
            context.compact(keep)
    assert context.kv_bytes == full
    context.compact(keep_sets(context.layout, [5, 5]))
    with pytest.raises(GateSightError, match="uncompacted"):
        context.compact(keep_sets(context.layout, [5, 5]))


def random_estimator(layout: HybridLayout) -> Estimator:
    module = EstimatorModule(layout.to_dict(), ["a"], ["none"], {})
    module.gate.copy_(torch.tensor([0.1, 0.3]))
    return module.estimator()


@torch.no_grad()
def test_eviction_keeps_the_best_scored_within_the_budget(
    model: transformers.PreTrainedModel, tokens: torch.Tensor
) -> None:
    context = CompactedContext(model, tokens[0, :CONTEXT])
    estimator, full = random_estimator(context.layout), context.kv_bytes
    keep = context.evict(estimator, kept=0.3, protected=4)
    budget = allocate(estimator.gate, CONTEXT - 4, 0.3)
    assert [k.shape[1] for k in keep] == (budget + 4).tolist()
    assert context.kv_bytes == full * int(budget.sum() + 8) // (2 * CONTEXT)
    scores = estimator.score(context.signals)
    for layer, positions in enumerate(keep):
        for head, kept in enumerate(positions):
            assert kept[:4].tolist() == [0, 1, 2, 3]
            gone = sorted(set(range(CONTEXT)) - set(kept.tolist()))
            assert scores[layer, head, kept[4:]].min() >= scores[layer, head, gone].max()


def test_an_estimator_of_another_model_is_refused(model: transformers.PreTrainedModel, tokens: torch.Tensor) -> None:
    context = CompactedContext(model, tokens[0, :CONTEXT])
    other = HybridLayout.from_dict({**context.layout.to_dict(), "value_heads": 3})
    with pytest.raises(GateSightError, match="value_heads is 3"):
        context.evict(random_estimator(other), kept=0.5)
    with pytest.raises(GateSightError, match="protected=99"):
        context.evict(random_estimator(context.layout), kept=0.5, protected=99)

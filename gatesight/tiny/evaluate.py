"""What a stand-in model can do: retrieval with and without its context's KV entries, held-out loss, half-lives of its memory."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from gatesight.metrics import spearman
from gatesight.recording.taps import tapped_prefill
from gatesight.tiny.fast import FastModel
from gatesight.tiny.hiding import visibility
from gatesight.tiny.tasks import EVALUATION, Document, Scribe
from gatesight.tiny.text import Library, Split

SLOW = 1_000
"""Half-life in tokens from which a head counts as slow (§3 of the paper)."""

PROTECTED, MARGIN = 4, 60
"""Never hidden: the first entries of a context, and the last ones before the first answer, where its question stands."""


def evaluate(
    model: Qwen3_5ForCausalLM, library: Library, lengths: tuple[int, ...] = (1024, 2048), documents: int = 16
) -> dict[str, Any]:
    """All measurements of one model, ready for JSON; of at least two ``documents``, whose half-lives are compared."""
    return {
        "retrieval": {
            f"{task}@{length}": [
                round(exact_match(model, library, task, length, documents, hidden), 3) for hidden in (0.0, 0.9)
            ]
            for length in lengths
            for task in EVALUATION
        },
        "held-out loss": text_loss(model, library, "held", documents),
        "train loss": text_loss(model, library, "train", documents),
        "half-lives": half_life_summary(half_lives(model, library, documents)),
    }


@torch.no_grad()
def exact_match(
    model: Qwen3_5ForCausalLM, library: Library, task: str, length: int, documents: int, hidden: float
) -> float:
    """Share of answers that greedy decoding gets right as a whole.

    Args:
        hidden: share of the context's KV entries, drawn at random, that the attention of every layer misses from the first
            question on.
    """
    rng, right, total = random.Random(f"{task}/{length}"), 0, 0
    for _ in range(documents):
        document = EVALUATION[task](Scribe(rng, library, "held", length))
        predicted = greedy(model, document, hidden, rng)
        for start, stop in document.answers:  # teacher forcing equals decoding as long as every token is right
            total += 1
            right += predicted[start - 1 : stop - 1] == document.ids[start:stop]
    return right / total


def greedy(model: Qwen3_5ForCausalLM, document: Document, hidden: float, rng: random.Random) -> list[int]:
    """The most likely next token after every token of a document."""
    ids = torch.tensor([document.ids], device=model.device)
    visible = None
    if hidden:
        asked = max(PROTECTED + 1, document.answers[0][0] - MARGIN)
        missing = torch.zeros(1, ids.shape[1], dtype=torch.bool)
        missing[0, PROTECTED:asked] = torch.tensor([rng.random() < hidden for _ in range(PROTECTED, asked)])
        visible = visibility(torch.zeros(1, dtype=torch.long), missing)
        visible[:, :, :asked] = torch.ones(asked, ids.shape[1], dtype=torch.bool).tril()
        visible = visible.to(model.device)
    best: list[int] = logits(model, ids, visible)[0].argmax(-1).tolist()
    return best


def logits(model: Qwen3_5ForCausalLM, ids: Tensor, visible: Tensor | None = None) -> Tensor:
    """Logits in the precision that the model is trained in."""
    with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=ids.is_cuda):
        return FastModel(model)(ids, visible)


@torch.no_grad()
def text_loss(
    model: Qwen3_5ForCausalLM, library: Library, split: Split, passages: int, length: int = 1024
) -> dict[str, float]:
    """Mean loss in nats a token of random passages, by source."""
    losses = {}
    for source in library.sources:
        rng, found = random.Random(source), []
        for _ in range(passages):
            ids = torch.tensor([library.passage(rng, length, split, source)], device=model.device)
            found.append(F.cross_entropy(logits(model, ids)[0, :-1].float(), ids[0, 1:]).item())
        losses[source] = round(sum(found) / len(found), 3)
    return losses


@torch.no_grad()
def half_lives(model: Qwen3_5ForCausalLM, library: Library, passages: int, length: int = 1024) -> Tensor:
    """Measured half-lives ``ln ½ / mean log-decay`` in tokens, ``[passages, G, V]``, over passages of all sources in turn."""
    rng, means = random.Random(0), []
    for i in range(passages):
        source = library.sources[i % len(library.sources)]
        ids = torch.tensor([library.passage(rng, length, "held", source)], device=model.device)
        with tapped_prefill(model) as taps:
            model.model(input_ids=ids, use_cache=False)
        means.append(taps.signals()[..., 1].mean(0))
    return math.log(0.5) / torch.stack(means).clamp(max=-1e-9)


def half_life_summary(values: Tensor) -> dict[str, Any]:
    """Distribution of the heads' median half-lives ``[passages, G, V]``, and how well passages agree on their order."""
    median = values.median(0).values
    flat = median.flatten().sort().values
    first, second = torch.triu_indices(len(values), len(values), 1)
    agreement = spearman(values[first].flatten(1), values[second].flatten(1))
    return {
        "heads": flat.numel(),
        "quantiles 0, 10, 25, 50, 75, 90, 100%": [
            round(flat.quantile(q).item(), 1) for q in (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1)
        ],
        "share over 1000": round((flat > SLOW).double().mean().item(), 3),
        "median by layer": [round(x, 1) for x in median.median(1).values.tolist()],
        "order agreement, mean Spearman": round(agreement.mean().item(), 3),
    }

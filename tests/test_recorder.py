"""A record holds exactly what the model computed: utilities by brute force, samples by plain generation, gates, decays."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers import AutoTokenizer
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from gatesight import GateSightError, HybridLayout
from gatesight.recording import recorder as module
from gatesight.recording.corpora import TextDocument
from gatesight.recording.recorder import DocumentRecorder
from gatesight.recording.taps import tapped_prefill
from gatesight.tiny import MODEL
from tests.models import FAMILY, random_model
from tests.test_utility import removed_for_real

TEXT = (
    "The ferry to Lisbon leaves at nine. Nadia keeps the red key, and Omar the blue one; the ferry leaves without them."
)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(MODEL)


class ByteTokenizer:
    """Bytes modulo the vocabulary of the random models, which have no tokenizer of their own."""

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return {"input_ids": [byte % 128 for byte in text.encode()]}


def recorder(model: transformers.PreTrainedModel, **options: Any) -> DocumentRecorder:
    return DocumentRecorder(model, ByteTokenizer(), **{"tokens": 6, **options})  # type: ignore[arg-type]


@torch.no_grad()
def rerun_utility(
    model: transformers.PreTrainedModel, context: np.ndarray, continuations: list[np.ndarray]
) -> torch.Tensor:
    """``[n, L, H]`` float64: every continuation run anew from the first token, every entry really removed.

    Queries, keys and values come from hooks of this test on the projections, through an attention function of its own.
    """
    layout, seen = HybridLayout.from_config(model.config), {}

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **_: Any) -> Any:
        seen[module.layer_idx] = (query[0] * scaling, key[0], value[0], module.o_proj.weight)
        keys, values = (x.repeat_interleave(layout.group, 1) for x in (key, value))
        causal = torch.ones(query.shape[2], query.shape[2], dtype=torch.bool).tril()
        weights = (query @ keys.transpose(2, 3) * scaling).masked_fill(~causal, -torch.inf).softmax(-1)
        return (weights @ values).transpose(1, 2), None

    ALL_ATTENTION_FUNCTIONS.register("rerun", attend)
    ALL_MASK_ATTENTION_FUNCTIONS.register("rerun", sdpa_mask)
    n = len(context)
    worth = torch.zeros(n, len(layout.attention_layers), layout.kv_heads, dtype=torch.float64)
    model.set_attn_implementation("rerun")
    for continuation in continuations:
        model(torch.from_numpy(np.concatenate([context, continuation]))[None].long(), use_cache=False)
        for place, index in enumerate(layout.attention_layers):
            query, key, value, w_o = seen[index]
            w_o = w_o.T.unflatten(0, (layout.query_heads, layout.head_dim))
            for head in range(layout.kv_heads):
                group = slice(head * layout.group, (head + 1) * layout.group)
                logits = query[group, n:].double() @ key[head].double().T
                rows, entries = logits.shape[1:]
                logits = logits.masked_fill(~torch.ones(rows, entries, dtype=torch.bool).tril(n), -torch.inf)
                found = removed_for_real(logits, value[head], w_o[group], n).amax(0)
                worth[:, place, head] = torch.maximum(worth[:, place, head], found)
    model.set_attn_implementation("sdpa")
    return worth


@pytest.mark.parametrize("kind", FAMILY)
def test_utility_equals_removal_in_a_full_rerun(kind: str) -> None:
    model = random_model(kind, peak=12)
    record = recorder(model, continuations=3).record(TextDocument("a/0", "a", TEXT[:40]))
    rows = [row[:length] for row, length in zip(record.continuations, record.continuation_lengths, strict=True)]
    expected = rerun_utility(model, record.input_ids, rows)
    largest = expected.amax(0)
    assert (
        (torch.from_numpy(record.utility) - expected).abs() / largest
    ).max() < 1e-3  # float32 model, other summation order
    assert record.reconstruction_error.max() < 1e-5
    assert (largest > 0).all()


def test_samples_are_those_of_plain_generation(tokenizer: Any) -> None:
    """Same seed, same default sampling parameters: the cached start changes nothing."""
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    record = DocumentRecorder(model, tokenizer, tokens=12, seed=3).record(TextDocument("a/0", "a", TEXT))
    seed = int.from_bytes(hashlib.sha256(b"3/a/0").digest()[:8], "little", signed=True)
    ids = torch.from_numpy(record.input_ids)[None].long().expand(4, -1)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        plain = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=True, max_new_tokens=12)[
            :, ids.shape[1] :
        ]
    for row, length, expected in zip(record.continuations, record.continuation_lengths, plain, strict=True):
        assert row[:length].tolist() == expected[:length].tolist()
    assert len({tuple(row) for row in record.continuations.tolist()}) > 1


def test_recording_leaves_the_random_state_alone_and_repeats_itself() -> None:
    model = random_model("qwen3_5", peak=4)
    torch.manual_seed(7)
    state = torch.get_rng_state()
    document = TextDocument("a/0", "a", TEXT)
    first, second = (recorder(model).record(document) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in vars(first).items():
        np.testing.assert_array_equal(value, getattr(second, name))
    other = recorder(model, seed=1).record(document)
    assert not np.array_equal(first.continuations, other.continuations)


def test_rows_behind_the_end_of_a_continuation_do_not_count() -> None:
    """With every token an end, all continuations have length 1, and what follows must not reach the utility."""
    model = random_model("qwen3_5", peak=12)
    model.generation_config.eos_token_id = list(range(128))
    record = recorder(model).record(TextDocument("a/0", "a", TEXT[:30]))
    assert record.continuation_lengths.tolist() == [1, 1, 1, 1]
    expected = rerun_utility(model, record.input_ids, [row[:1] for row in record.continuations])
    assert ((torch.from_numpy(record.utility) - expected).abs() / expected.amax(0)).max() < 1e-3


def test_decay_and_gates_are_means_over_the_document() -> None:
    model = random_model("qwen3_5")
    record = recorder(model).record(TextDocument("a/0", "a", TEXT))
    with torch.no_grad(), tapped_prefill(model) as taps:
        model(torch.from_numpy(record.input_ids)[None].long())
    np.testing.assert_allclose(record.mean_decay, taps.signals()[..., 1].mean(0), rtol=1e-4)
    np.testing.assert_allclose(record.gate_query, taps.gate().mean(0), rtol=1e-4)
    group_max = torch.stack([taps.gate()[..., :2].amax(-1), taps.gate()[..., 2:].amax(-1)], dim=-1)
    np.testing.assert_allclose(record.gate_kv, group_max.mean(0), rtol=1e-4)
    np.testing.assert_allclose(record.signals, taps.signals(), rtol=2e-3, atol=1e-4)  # float16 on disk


def test_a_chat_prefix_is_counted(tokenizer: Any) -> None:
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    prefix, ids = DocumentRecorder(model, tokenizer, chat=True).encode(TextDocument("a/0", "a", TEXT))
    assert tokenizer.decode(ids[:prefix]) == "<|im_start|>user\n"
    assert tokenizer.decode(ids[prefix:]) == TEXT


@pytest.mark.parametrize("text", ["", "  \n", "a"])
def test_a_document_without_text_is_refused(text: str) -> None:
    with pytest.raises(GateSightError, match=r"document 'code/7' of corpus 'code' has \d tokens"):
        recorder(random_model("qwen3_5")).record(TextDocument("code/7", "code", text))


def test_a_wrong_reconstruction_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose attention is not what the taps assume, here with another scaling, must not be recorded quietly."""
    original = module.tapped_attention

    @contextmanager
    def off(model: Any) -> Iterator[Any]:
        with original(model) as calls:
            yield calls
        for index, call in calls.items():
            calls[index] = replace(call, scaling=call.scaling * 1.5)

    monkeypatch.setattr(module, "tapped_attention", off)
    with pytest.raises(GateSightError, match=r"layer 3.*off by"):
        recorder(random_model("qwen3_5", peak=12)).record(TextDocument("a/0", "a", TEXT))


def test_other_models_are_refused() -> None:
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=32
    )
    with pytest.raises(GateSightError, match="not a hybrid"):
        recorder(transformers.LlamaForCausalLM(config))

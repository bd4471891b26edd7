"""What the taps record equals what the delta rule and the attention functions of the model really received."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers
from transformers import DynamicCache

from gatesight import GateSightError, HybridLayout
from gatesight.recording.taps import tapped_attention, tapped_prefill
from gatesight.transformers import cache_argument
from tests.models import FAMILY, random_model


@contextmanager
def witness(model: transformers.PreTrainedModel) -> Iterator[list[dict[str, torch.Tensor]]]:
    """Wrap the delta-rule function in the model's own module and note its arguments, call by call."""
    name = next(type(m).__module__ for m in model.modules() if hasattr(m, "linear_attn"))
    module, calls = importlib.import_module(name), []
    original = module.torch_chunk_gated_delta_rule

    def wrapped(query: Any, key: Any, value: Any, *args: Any, g: Any, beta: Any, **options: Any) -> Any:
        calls.append({"v": value, "g": g, "beta": beta})
        return original(query, key, value, *args, g=g, beta=beta, **options)

    module.torch_chunk_gated_delta_rule = wrapped
    try:
        yield calls
    finally:
        module.torch_chunk_gated_delta_rule = original


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", FAMILY)
def test_signals_are_what_the_delta_rule_received(kind: str, dtype: torch.dtype) -> None:
    model = random_model(kind).to(dtype)
    ids = torch.randint(0, 128, (1, 37))
    with witness(model) as calls, tapped_prefill(model) as taps:
        model(ids, use_cache=False)
    layout = HybridLayout.from_config(model.config)
    assert taps.signals().shape == (37, len(layout.gdn_layers), layout.value_heads, 3)
    assert taps.gate().shape == (37, len(layout.attention_layers), layout.query_heads)
    rounding = 1e-6 if dtype == torch.float32 else 5e-3  # the model's own sigmoid is in bfloat16, ours in float32
    for signals, call in zip(taps.signals().unbind(1), calls, strict=True):
        torch.testing.assert_close(signals[..., 0], call["beta"][0].float(), rtol=rounding, atol=rounding)
        torch.testing.assert_close(signals[..., 1], call["g"][0].float(), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(signals[..., 2], call["v"][0].float().norm(dim=-1), rtol=1e-5, atol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("kind", FAMILY)
def test_chunks_give_what_the_whole_gives(kind: str) -> None:
    model = random_model(kind)
    ids = torch.randint(0, 128, (1, 30))
    with tapped_prefill(model) as whole:
        model(ids)
    cache = DynamicCache(config=model.config)
    with tapped_prefill(model) as taps:
        for chunk in ids.split([11, 1, 2, 1, 15], dim=1):
            model(chunk, **{cache_argument(model): cache})
    torch.testing.assert_close(taps.signals(), whole.signals(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(taps.gate(), whole.gate(), rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", FAMILY)
def test_attention_calls_rebuild_the_layer_outputs(kind: str) -> None:
    """softmax(q k) v equals the tapped output; times the gate, through o_proj, it equals what the layer gave."""
    model = random_model(kind)
    layout, given = HybridLayout.from_config(model.config), {}
    ids = torch.randint(0, 128, (2, 19))
    modules = {m.layer_idx: m for m in model.modules() if hasattr(m, "o_proj") and hasattr(m, "layer_idx")}
    hooks = [
        m.register_forward_hook(lambda m, _, output: given.update({m.layer_idx: output[0]})) for m in modules.values()
    ]
    gates = [
        m.q_proj.register_forward_hook(lambda m, _, output: given.update({id(m): output})) for m in modules.values()
    ]
    with tapped_attention(model) as calls:
        logits = model(ids, use_cache=False).logits
    for hook in hooks + gates:
        hook.remove()
    torch.testing.assert_close(logits, model(ids, use_cache=False).logits, rtol=0, atol=0)
    assert list(calls) == list(layout.attention_layers)
    for index, call in calls.items():
        key, value = (x.repeat_interleave(layout.group, 1) for x in (call.key, call.value))
        scores = (call.query @ key.transpose(2, 3) * call.scaling).masked_fill(
            ~torch.ones(19, 19).tril().bool(), -torch.inf
        )
        output = (scores.softmax(-1) @ value).transpose(1, 2)
        torch.testing.assert_close(output, call.output, rtol=1e-5, atol=1e-6)
        gate = given[id(modules[index].q_proj)].unflatten(-1, (layout.query_heads, 2, -1))[..., 1, :].sigmoid()
        torch.testing.assert_close(
            modules[index].o_proj((output * gate).flatten(2)), given[index], rtol=1e-4, atol=1e-6
        )


@torch.no_grad()
@pytest.mark.parametrize("kind", FAMILY)
def test_the_model_is_as_before_also_after_an_error(kind: str) -> None:
    model = random_model(kind)
    ids = torch.randint(0, 128, (1, 9))
    before = model(ids).logits
    with pytest.raises(RuntimeError), tapped_prefill(model), tapped_attention(model):
        raise RuntimeError
    assert model.config.get_text_config()._attn_implementation == "sdpa"
    assert not any(m._forward_hooks for m in model.modules())
    assert not any("gatesight" in name for m in model.modules() for name in vars(m))
    torch.testing.assert_close(model(ids).logits, before, rtol=0, atol=0)


def test_a_batch_is_refused() -> None:
    model = random_model("qwen3_5")
    with pytest.raises(GateSightError, match="one document at a time"), tapped_prefill(model):
        model(torch.zeros(2, 5, dtype=torch.long))


def test_other_models_are_refused() -> None:
    config = transformers.LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=32
    )
    with pytest.raises(GateSightError, match="not a hybrid"), tapped_prefill(transformers.LlamaForCausalLM(config)):
        pass

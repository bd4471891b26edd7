"""Taps on a hybrid transformers model: what its layers compute in a forward pass, without changing it.

The layers are found by their structure, so every model shaped like Qwen3-Next or Qwen3.5 works, dense or MoE, alone or
inside a multimodal model. GDN layers are read through hooks on their input projections, since the delta-rule functions
are module globals, out of reach of hooks; attention layers through transformers' attention interface.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout
from gatesight.signals import convolved, log_decay, write_gate, write_magnitude

ATTENTION = "gatesight_tapped"
_SINK = "_gatesight_sink"


@dataclass
class PrefillTaps:
    """What a prefill of one sequence leaves, chunk by chunk, by absolute layer index; float32."""

    chunks: dict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    """``[chunk, V, 3]`` β, g, ‖v‖ of every GDN layer."""
    gates: dict[int, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    """``[chunk, Q]`` sigmoid output gate of every attention layer, mean over channels."""

    def signals(self) -> torch.Tensor:
        """``[n, G, V, 3]``"""
        return torch.stack([torch.cat(self.chunks[layer]).cpu() for layer in sorted(self.chunks)], dim=1)

    def gate(self) -> torch.Tensor:
        """``[n, L, Q]``"""
        return torch.stack([torch.cat(self.gates[layer]).cpu() for layer in sorted(self.gates)], dim=1)


@dataclass(frozen=True)
class AttentionCall:
    """The inputs and output of one attention layer: after norm and rotation, with cached entries, before the output gate."""

    query: torch.Tensor
    """``[B, Q, T, D]``"""
    key: torch.Tensor
    """``[B, H, N, D]``"""
    value: torch.Tensor
    """``[B, H, N, D]``"""
    output: torch.Tensor
    """``[B, T, Q, D]``"""
    scaling: float


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """The decoder layers of the language model, wherever it sits in ``model``.

    Raises:
        GateSightError: there is no list of layers of which some have ``linear_attn`` and the others ``self_attn``.
    """
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module):
            kinds = {next((k for k in ("linear_attn", "self_attn") if hasattr(x, k)), "") for x in module}
            if kinds == {"linear_attn", "self_attn"}:
                return module
    raise GateSightError(
        f"{type(model).__name__} has no Gated DeltaNet layers between attention layers: it cannot be recorded."
    )


@contextmanager
def tapped_prefill(model: PreTrainedModel) -> Iterator[PrefillTaps]:
    """Read signals and output gates of a prefill within the block: one sequence, unpadded, from its start, in any chunks.

    Raises:
        GateSightError: the model is no GDN/attention hybrid, or its layers are not built as the family's are.
    """
    layout, taps = HybridLayout.from_config(model.config), PrefillTaps()
    layers: Any = decoder_layers(model)
    handles: list[Any] = []
    try:
        for index in layout.gdn_layers:
            handles += _tap_gdn(layers[index].linear_attn, index, taps.chunks[index])
        for index in layout.attention_layers:
            handles.append(_tap_gate(layers[index].self_attn, index, layout, taps.gates[index]))
        yield taps
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def tapped_attention(model: PreTrainedModel) -> Iterator[dict[int, AttentionCall]]:
    """Read the last call of every attention layer within the block, by absolute layer index."""
    layout = HybridLayout.from_config(model.config)
    layers: Any = decoder_layers(model)
    calls: dict[int, AttentionCall] = {}
    modules = {index: layers[index].self_attn for index in layout.attention_layers}
    previous = model.config.get_text_config()._attn_implementation
    try:
        for index, module in modules.items():
            setattr(module, _SINK, (calls, index))
        model.set_attn_implementation(ATTENTION)
        yield calls
    finally:
        model.set_attn_implementation(previous)
        for module in modules.values():
            delattr(module, _SINK)


def _tap_gdn(gdn: Any, index: int, sink: list[torch.Tensor]) -> list[Any]:
    """Hooks that add a chunk's signals to ``sink`` as soon as all projections of the layer have run."""
    if not all(hasattr(gdn, name) for name in ("A_log", "dt_bias", "conv1d", "key_dim", "value_dim", "num_v_heads")):
        raise GateSightError(
            f"layer {index} ({type(gdn).__name__}) is not built like a Gated DeltaNet layer of the family."
        )
    fused = hasattr(gdn, "in_proj_qkvz")
    names = ("in_proj_qkvz", "in_proj_ba") if fused else ("in_proj_qkv", "in_proj_b", "in_proj_a")
    outputs: dict[str, torch.Tensor] = {}
    weight, bias = gdn.conv1d.weight[2 * gdn.key_dim :], gdn.conv1d.bias
    before = torch.zeros(1, weight.shape[-1] - 1, gdn.value_dim)  # the values at the end of the chunk before

    def add_chunk() -> None:
        nonlocal before
        projected = [outputs.pop(name) for name in names]
        x, b, a = _split_fused(gdn, *projected) if fused else (projected[0][..., 2 * gdn.key_dim :], *projected[1:])
        if len(x) != 1:
            raise GateSightError(f"a batch of {len(x)} was prefilled: record one document at a time, without padding.")
        before = before.to(x)
        v = convolved(x, before, weight, None if bias is None else bias[2 * gdn.key_dim :])
        before = torch.cat([before, x], dim=1)[:, -before.shape[1] :]
        magnitude = write_magnitude(v.unflatten(-1, (gdn.num_v_heads, -1)))
        sink.append(torch.stack([write_gate(b), log_decay(a, gdn.A_log, gdn.dt_bias), magnitude], dim=-1)[0])

    def collect(name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: torch.Tensor) -> None:
            outputs[name] = output
            if len(outputs) == len(names):
                add_chunk()

        return hook

    return [getattr(gdn, name).register_forward_hook(collect(name)) for name in names]


def _split_fused(gdn: Any, qkvz: torch.Tensor, ba: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """v ``[1, n, value_dim]``, b and a ``[1, n, V]`` of a layer that projects them together, key head by key head."""
    _, _, v, _, b, a = gdn.fix_query_key_value_ordering(qkvz, ba)
    return v.flatten(2), b, a


def _tap_gate(attention: Any, index: int, layout: HybridLayout, sink: list[torch.Tensor]) -> Any:
    """A hook on the query projection, which holds [query | gate] for each head."""
    width = layout.query_heads * layout.head_dim * 2
    if attention.q_proj.out_features != width:
        raise GateSightError(
            f"layer {index} has no attention output gate (q_proj is not {width} wide), which budgets need."
        )

    def hook(_: nn.Module, __: Any, output: torch.Tensor) -> None:
        gate = output.unflatten(-1, (layout.query_heads, 2, layout.head_dim))[0, ..., 1, :]
        sink.append(gate.float().sigmoid().mean(-1))

    return attention.q_proj.register_forward_hook(hook)


def _attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> Any:
    output, weights = sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    calls, index = getattr(module, _SINK)
    calls[index] = AttentionCall(query, key, value, output, options["scaling"])
    return output, weights


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, sdpa_mask)  # without it a replay on a cache would run unmasked

"""A transformers cache whose attention layers keep entries of their own choice, each layer its own number of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout

ATTENTION = "gatesight_compacted"


class CompactedLayer(DynamicLayer):
    """One attention layer after eviction: ``[B, H, K, D]`` kept entries, while positions go on from the original length."""

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, evicted: int) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values, self.evicted = keys, values, evicted

    def get_seq_length(self) -> int:
        """Tokens seen, evicted ones included: the position of the next token."""
        return self.keys.shape[-2] + self.evicted


def compact(cache: Cache, keep: Sequence[torch.Tensor], layout: HybridLayout) -> None:
    """Drop from every attention layer of ``cache``, in place, all entries but those of its keep set.

    The recurrent states stay as they are, and kept keys keep the rotation of their original positions (§4.3).

    Args:
        cache: a prefilled cache of one sequence.
        keep: for each of the ``L`` attention layers ``[H, K_l]`` ascending positions, as :func:`gatesight.select` gives.
        layout: the model's layout.

    Raises:
        GateSightError: the cache holds a batch, was compacted before, or the keep sets do not fit it.
    """
    layers = [cache.layers[i] for i in layout.attention_layers]
    if len(keep) != len(layers) or any(type(layer) is not DynamicLayer for layer in layers):
        raise GateSightError(
            f"{len(keep)} keep sets for {len(layers)} attention layers that must hold uncompacted entries."
        )
    for layer, positions in zip(layers, keep, strict=True):
        batch, heads, n, _ = layer.keys.shape
        beyond = positions.numel() and int(positions.max()) >= n
        if batch != 1 or positions.shape[0] != heads or beyond:
            raise GateSightError(
                f"a keep set {list(positions.shape)} does not fit a cache of {batch} × {heads} heads × {n} entries."
            )
    for i, positions in zip(layout.attention_layers, keep, strict=True):
        layer = cache.layers[i]
        index = positions.to(layer.keys.device)[None, :, :, None]
        keys, values = (x.gather(2, index.expand(-1, -1, -1, x.shape[-1])) for x in (layer.keys, layer.values))
        cache.layers[i] = CompactedLayer(keys, values, evicted=layer.keys.shape[2] - positions.shape[1])


@contextmanager
def compacted_attention(model: PreTrainedModel) -> Iterator[None]:
    """Let ``model`` attend to compacted layers within the block; afterwards it is as before."""
    previous = model.config.get_text_config()._attn_implementation
    model.set_attn_implementation(ATTENTION)
    try:
        yield
    finally:
        model.set_attn_implementation(previous)


def _attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> Any:
    # The mask is built once for all layers, over the original length. All kept entries are older than every query, so
    # the last columns of the mask, as many as this layer has entries, are exactly this layer's mask.
    if attention_mask is not None:
        attention_mask = attention_mask[..., -key.shape[-2] :]
    return sdpa_attention_forward(module, query, key, value, attention_mask, **options)


ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend)
ALL_MASK_ATTENTION_FUNCTIONS.register(ATTENTION, sdpa_mask)

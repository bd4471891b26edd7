"""Rank by one native signal: its mean over the heads of the window, all of them or those that remember long (§3.2, Table 5)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gatesight.layout import HybridLayout

FALLBACK_SHARE = 0.13
"""Share of slow heads on Qwen3.8-27B (293 of 2,304), taken where no head of a model reaches the threshold (ours)."""

QUANTITIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "beta": lambda signals: signals[..., 0],
    "forget": lambda signals: -signals[..., 1],
    "retention": lambda signals: signals[..., 1].exp(),
    "v_norm": lambda signals: signals[..., 2],
    "write": lambda signals: signals[..., 0] * signals[..., 2],
}
"""What a head says of a token, of signals ``[..., 3]``: β, −g, exp(g), ‖v‖ and the effective write β‖v‖."""


def slow_heads(half_life: torch.Tensor, threshold: float) -> torch.Tensor:
    """Which heads are slow: half-life ≥ ``threshold`` tokens, or the slowest 13% if no head reaches it.

    Args:
        half_life: ``[G, V]`` median half-lives in tokens.
        threshold: in tokens; the paper's is 1,000.

    Returns:
        ``[G, V]`` bool.
    """
    if (half_life < threshold).all():
        count = max(1, round(FALLBACK_SHARE * half_life.numel()))
        threshold = float(half_life.flatten().topk(count).values[-1])
    return half_life >= threshold


class WindowMean:
    """Mean of a quantity over chosen heads of the window W(l), the same for all KV heads of a layer.

    A window without a chosen head scores every entry 0 (ties go to the earlier position).

    Args:
        layout: the model's layout.
        width: GDN layers of a window.
        quantity: a key of ``QUANTITIES``.
        heads: ``[G, V]`` bool, such as :func:`slow_heads` gives; all heads by default.
    """

    def __init__(self, layout: HybridLayout, width: int, quantity: str, heads: torch.Tensor | None = None) -> None:
        self.kv_heads, self.quantity = layout.kv_heads, QUANTITIES[quantity]
        if heads is None:
            heads = torch.ones(len(layout.gdn_layers), layout.value_heads, dtype=torch.bool)
        weight = torch.zeros(len(layout.attention_layers), *heads.shape, device=heads.device)
        for layer, window in enumerate(layout.windows(width)):
            weight[layer, list(window)] = heads[list(window)].float()
        self.weight = weight / weight.sum((1, 2), keepdim=True).clamp(min=1)

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        values = self.quantity(signals.float()).flatten(1)  # [n, G·V]
        scores = self.weight.to(values.device).flatten(1) @ values.T  # [L, n]
        return scores[:, None].expand(-1, self.kv_heads, -1)

"""Rank by what the slow heads write: the mean of β‖v‖ over the heads of the window that remember long (§3.2)."""

from __future__ import annotations

import torch

from gatesight.layout import HybridLayout

FALLBACK_SHARE = 0.13
"""Share of slow heads on Qwen3.8-27B (293 of 2,304), taken where no head of a model reaches the threshold (ours)."""


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


class SlowWrite:
    """Mean β‖v‖ over the slow heads of the window W(l), the same for all KV heads of a layer.

    A window without a slow head scores every entry 0 (ties go to the earlier position).

    Args:
        layout: the model's layout.
        width: GDN layers of a window.
        slow: ``[G, V]`` bool, as :func:`slow_heads` gives it.
    """

    def __init__(self, layout: HybridLayout, width: int, slow: torch.Tensor) -> None:
        self.kv_heads = layout.kv_heads
        weight = torch.zeros(len(layout.attention_layers), *slow.shape, device=slow.device)
        for layer, window in enumerate(layout.windows(width)):
            weight[layer, list(window)] = slow[list(window)].float()
        self.weight = weight / weight.sum((1, 2), keepdim=True).clamp(min=1)

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        write = (signals[..., 0].float() * signals[..., 2].float()).flatten(1)  # [n, G·V]
        scores = self.weight.to(write.device).flatten(1) @ write.T  # [L, n]
        return scores[:, None].expand(-1, self.kv_heads, -1)

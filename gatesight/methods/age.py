"""Rank by age alone, the paper's best fixed heuristic (§3.3)."""

from __future__ import annotations

import torch

from gatesight.layout import HybridLayout


class OlderFirst:
    """Keep the beginning of the context."""

    def __init__(self, layout: HybridLayout) -> None:
        self.shape = (len(layout.attention_layers), layout.kv_heads)

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        return -torch.arange(len(signals), device=signals.device, dtype=torch.float32).expand(*self.shape, -1)


class NewerFirst(OlderFirst):
    """Keep the end of the context."""

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        return -super().score(signals)

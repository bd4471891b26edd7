"""Rank by the effective write of one GDN head: for each KV head the one that would have been best, a ceiling for such rules."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from gatesight.methods.window_mean import QUANTITIES
from gatesight.metrics import ranks, top_count

FRACTION = 0.1


class BestCell:
    """β‖v‖ of one (GDN layer, head) cell for each attention layer and KV head (Appendix C).

    Args:
        cells: int64 ``[L, H]``, indices into the ``G·V`` cells.
    """

    def __init__(self, cells: torch.Tensor) -> None:
        self.cells = cells

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        return QUANTITIES["write"](signals.float()).flatten(1).T[self.cells]


def find_best_cells(documents: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
    """The cells with the highest mean overlap@10 over the given documents, which are to be those of the evaluation.

    Any GDN layer may serve any attention layer; of equal cells the first is taken.

    Args:
        documents: signals ``[n, G, V, 3]`` and raw utility ``[L, H, n]`` of each.

    Returns:
        int64 ``[L, H]``.
    """
    overlap = torch.zeros(())
    for signals, utility in documents:
        k = top_count(len(signals), FRACTION)
        predicted = (ranks(QUANTITIES["write"](signals.float()).flatten(1).T) < k).float()  # [G·V, n]
        true = (ranks(utility) < k).float()  # [L, H, n]
        overlap = overlap.to(signals.device) + torch.einsum("cn,lhn->clh", predicted, true).double() / k
    return overlap.argmax(0)

"""What an estimator is trained to predict: raw utility U turned into labels in [0, 1], for each attention layer and KV head by itself.

Only the ranking of the predictions counts in the end; which part of it a label stresses is what these differ in.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gatesight.metrics import FRACTIONS, ranks, top_count


def max_normalised(utility: torch.Tensor) -> torch.Tensor:
    """U over its maximum (§4.1), 0 where no entry has any."""
    largest = utility.amax(-1, keepdim=True)
    return utility / torch.where(largest > 0, largest, 1)


def top_shares(utility: torch.Tensor) -> torch.Tensor:
    """In how many of the true top 1, 5, 10, 20 and 50% an entry is, over 5 (ours): every budget counts alike."""
    n, rank = utility.shape[-1], ranks(utility)
    return torch.stack([rank < top_count(n, fraction) for fraction in FRACTIONS]).float().mean(0)


def log_normalised(utility: torch.Tensor) -> torch.Tensor:
    """log(1 + 1000 U / U_max) / log 1001 (ours): differences among the many entries of little utility count more."""
    return torch.log1p(1000 * max_normalised(utility)) / torch.log1p(torch.tensor(1000.0))


LABELS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "max": max_normalised,
    "top": top_shares,
    "log": log_normalised,
}
"""Functions of raw utility ``[..., n]`` over the entries that count (those behind the prefix)."""

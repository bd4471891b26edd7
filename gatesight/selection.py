"""Which entries each attention layer and KV head keeps, given scores and budgets."""

from __future__ import annotations

import torch

from gatesight.errors import GateSightError


def best_first(values: torch.Tensor) -> torch.Tensor:
    """Indices of ``[..., n]`` from the largest value to the smallest; of equal ones the earlier position comes first."""
    return values.sort(dim=-1, descending=True, stable=True).indices


def select(scores: torch.Tensor, kept: torch.Tensor, protected: int) -> list[torch.Tensor]:
    """The keep set of every layer and head: the protected prefix and the ``kept[l]`` best-scored entries behind it.

    All heads of a layer keep the same count but their own entries, so a compacted layer is a dense prefix. Ties go to
    the earlier position.

    Args:
        scores: ``[L, H, n]``, higher is kept first; no NaN.
        kept: int ``[L]``, the budget K_l of each layer.
        protected: leading entries that every head keeps.

    Returns:
        ``L`` int64 tensors ``[H, protected + K_l]`` of ascending positions.

    Raises:
        GateSightError: scores hold NaN, or a budget exceeds the entries there are.
    """
    layers, heads, n = scores.shape
    if torch.isnan(scores).any():
        raise GateSightError("scores hold NaN: no keep set can be chosen from them.")
    if len(kept) != layers or not 0 <= protected <= n or (kept < 0).any() or (kept > n - protected).any():
        raise GateSightError(
            f"budgets {kept.tolist()} with {protected} protected entries do not fit {layers} layers of {n} entries."
        )
    order = best_first(scores[:, :, protected:]) + protected
    prefix = torch.arange(protected, device=scores.device).expand(heads, -1)
    best = [order[layer, :, :count].sort(dim=-1).values for layer, count in enumerate(kept.tolist())]
    return [torch.cat([prefix, positions], dim=-1) for positions in best]

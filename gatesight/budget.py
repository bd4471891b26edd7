"""How many entries each attention layer keeps: a fixed total, shared out by the model's own output gate (§2, §4.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import torch

from gatesight.errors import GateSightError

PYRAMID_BETA = 20


def allocate(
    gate: Sequence[float] | torch.Tensor, n_body: int, kept_fraction: float, rule: str = "gate"
) -> torch.Tensor:
    """The budget K_l of every attention layer, in entries per KV head on top of the protected prefix.

    Shares are proportional to the rule's weights and rounded by largest remainder; a layer never keeps more than the
    ``n_body`` entries it has, and what a full layer cannot take goes to the others in proportion (ours: the paper
    is silent on full layers). Computed in exact rational arithmetic, so that every process arrives at the same numbers.

    Args:
        gate: ``[L]`` mean output gate w_l of each layer, finite and not negative.
        n_body: context tokens after the protected prefix, n - prot.
        kept_fraction: p in [0, 1].
        rule: ``gate`` (w_l), ``flat`` (equal) or ``pyramid`` (PyramidKV's arithmetic decrease with depth, β = 20).

    Returns:
        int64 ``[L]`` with sum exactly ``L * round(p * n_body)``.

    Raises:
        GateSightError: an argument is out of its range.
    """
    layers = len(gate)
    if not layers or n_body < 0 or not 0 <= kept_fraction <= 1:
        raise GateSightError(
            f"cannot allocate kept={kept_fraction} of {n_body} entries over {layers} layers: "
            "the kept fraction lies in [0, 1], and there is at least one layer."
        )
    weights = _weights([float(w) for w in gate], rule)
    shares = _water_fill(weights, Fraction(layers * round(kept_fraction * n_body)), Fraction(n_body))
    return torch.tensor(_largest_remainder(shares), dtype=torch.int64)


def _weights(gate: list[float], rule: str) -> list[Fraction]:
    if rule == "flat":
        return [Fraction(1)] * len(gate)
    if rule == "pyramid":  # from twice the mean minus the last layer's share down to 1/β of the mean
        last, steps = Fraction(1, PYRAMID_BETA), max(len(gate) - 1, 1)
        return [2 - last - Fraction(i, steps) * (2 - 2 * last) for i in range(len(gate))]
    if rule != "gate":
        raise GateSightError(f"unknown budget rule '{rule}': choose gate, flat or pyramid.")
    if not all(math.isfinite(w) and w >= 0 for w in gate):
        raise GateSightError(f"gate weights must be finite and not negative, but are {gate}.")
    return [Fraction(w) for w in gate]


def _water_fill(weights: list[Fraction], total: Fraction, capacity: Fraction) -> list[Fraction]:
    """Shares of ``total`` in proportion to ``weights``, none above ``capacity``."""
    shares = [Fraction(0)] * len(weights)
    open_layers = list(range(len(weights)))
    while open_layers and total > 0:
        weight = sum(weights[i] for i in open_layers)
        for i in open_layers:  # where no open layer has weight, the rest is shared equally
            shares[i] = total * weights[i] / weight if weight else total / len(open_layers)
        full = [i for i in open_layers if shares[i] >= capacity]
        if not full:
            break
        for i in full:
            shares[i] = capacity
        total -= capacity * len(full)
        open_layers = [i for i in open_layers if i not in full]
        for i in open_layers:
            shares[i] = Fraction(0)
    return shares


def _largest_remainder(shares: list[Fraction]) -> list[int]:
    """Whole numbers with the same sum; ties go to the shallower layer."""
    counts = [math.floor(share) for share in shares]
    missing = int(sum(shares)) - sum(counts)
    for i in sorted(range(len(shares)), key=lambda i: counts[i] - shares[i])[:missing]:
        counts[i] += 1
    return counts

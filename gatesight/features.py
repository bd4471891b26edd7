"""What an estimator sees of an entry: the native signals of the GDN layers before its attention layer, and its age."""

from __future__ import annotations

import torch

from gatesight.layout import HybridLayout

AGE_FEATURES = ("distance", "log_distance", "inverse_position")
SIGNALS = ("beta", "g", "v_norm")
"""Order of the last axis of a signal tensor: write gate β, log-decay g, ‖v‖."""


def age_features(positions: torch.Tensor, n: int) -> torch.Tensor:
    """The three age features of entries of a context of ``n`` tokens (ours: the paper only says that there are three).

    With i the position, d = n - 1 - i and m = max(n - 1, 1): d/m, log1p(d)/log1p(m) and 1/(1 + i). They lie in [0, 1]
    for every n ≥ 1, and the two ends of the context stay distinct at any length.

    Args:
        positions: ``[rows]`` positions in [0, n).
        n: length of the context.

    Returns:
        ``[rows, 3]`` float32.
    """
    i = positions.to(torch.float32)
    distance = (n - 1) - i
    span = torch.tensor(float(max(n - 1, 1)), device=i.device)
    return torch.stack([distance / span, distance.log1p() / span.log1p(), 1 / (1 + i)], dim=-1).clamp_(0, 1)


def window_columns(layout: HybridLayout, width: int) -> list[slice]:
    """The input columns of each attention layer's window W(l) (§4.1), in signals flattened to ``[rows, G·V·3]``.

    Signals are token-major and a window is a run of GDN layers, so it is one strided slice: no gather, no copy. A layer
    with fewer than ``width`` GDN layers before it has a shorter slice, as if its missing slots, the oldest ones of a
    right-aligned window, were zeros without parameters.
    """
    stride = layout.value_heads * len(SIGNALS)
    windows = layout.windows(width)
    return [slice(window[0] * stride, (window[-1] + 1) * stride) if window else slice(0, 0) for window in windows]

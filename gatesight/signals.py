"""The three native signals of a Gated DeltaNet layer, from the tensors its prefill computes anyway (§2).

All are float32 whatever the model's dtype: a bfloat16 sigmoid alone is off by up to 0.4%.
"""

from __future__ import annotations

import torch
from torch import nn


def write_gate(b: torch.Tensor) -> torch.Tensor:
    """β = sigmoid(b) in (0, 1): how much of its value a token writes."""
    return b.float().sigmoid()


def log_decay(a: torch.Tensor, a_log: torch.Tensor, dt_bias: torch.Tensor) -> torch.Tensor:
    """g = −exp(A_log) softplus(a + dt_bias) ≤ 0, in nats a token: how fast the state forgets."""
    return -a_log.float().exp() * nn.functional.softplus(a.float() + dt_bias.float())


def write_magnitude(v: torch.Tensor) -> torch.Tensor:
    """‖v‖ over the last axis, of the value that the delta rule writes."""
    return v.float().norm(dim=-1)


def convolved(x: torch.Tensor, before: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """The short causal depthwise convolution and SiLU of a GDN layer.

    Args:
        x: ``[B, n, channels]`` projected inputs.
        before: ``[B, kernel - 1, channels]`` the inputs before them, zeros at the start of a sequence.
        weight: ``[channels, 1, kernel]``.
        bias: ``[channels]`` or None.

    Returns:
        ``[B, n, channels]`` in the dtype of ``x``.
    """
    inputs = torch.cat([before, x], dim=1).transpose(1, 2)
    return nn.functional.silu(nn.functional.conv1d(inputs, weight, bias, groups=len(weight))).transpose(1, 2)

"""The shape of a stand-in model, and its initial weights.

The family is transformers' ``Qwen3_5ForCausalLM``. Two departures from its usual initialisation decide what a small model learns, so
they are part of the shape: heads whose memory is kept long by force, and attention without positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3_5TextConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from gatesight.errors import GateSightError

END_OF_TEXT, TURN_START, TURN_END, PAD = range(4)
"""Ids of the tokenizer's special tokens."""

SLOW_HALF_LIVES = (1_000.0, 10_000.0)
"""Range of the half-lives, in tokens, of protected slow heads."""


@dataclass(frozen=True)
class Architecture:
    """Layers of Gated DeltaNet, every ``attention_every``-th one attending; sizes that vLLM's CPU kernels accept."""

    vocabulary: int = 3072
    hidden: int = 192
    mlp: int = 320
    layers: int = 16
    attention_every: int = 4
    key_heads: int = 2
    value_heads: int = 6
    query_heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    rotary: bool = True
    """Without it the rotated quarter of queries and keys is switched off: attention then knows no positions."""
    slow_heads: int = 0
    """Value heads of each GDN layer whose decay is fixed at a half-life of thousands of tokens, whatever they read."""

    def __post_init__(self) -> None:
        if not 0 <= self.slow_heads <= self.value_heads:
            raise GateSightError(
                f"slow_heads={self.slow_heads}: a GDN layer of this model has {self.value_heads} value heads."
            )
        if self.layers < self.attention_every:
            raise GateSightError(
                f"layers={self.layers} holds no attention layer: take at least {self.attention_every}."
            )

    def config(self) -> Qwen3_5TextConfig:
        """The transformers config of this shape."""
        return Qwen3_5TextConfig(
            architectures=["Qwen3_5ForCausalLM"],
            vocab_size=self.vocabulary,
            hidden_size=self.hidden,
            intermediate_size=self.mlp,
            num_hidden_layers=self.layers,
            layer_types=[
                "full_attention" if (i + 1) % self.attention_every == 0 else "linear_attention"
                for i in range(self.layers)
            ],
            num_attention_heads=self.query_heads,
            num_key_value_heads=self.kv_heads,
            head_dim=self.head_dim,
            linear_num_key_heads=self.key_heads,
            linear_num_value_heads=self.value_heads,
            linear_key_head_dim=self.head_dim,
            linear_value_head_dim=self.head_dim,
            max_position_embeddings=8192,
            initializer_range=0.04,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=TURN_END,
            pad_token_id=PAD,
            rope_parameters={"rope_type": "default", "rope_theta": 100_000.0, "partial_rotary_factor": 0.25},
        )


def build(architecture: Architecture, seed: int) -> Qwen3_5ForCausalLM:
    """A new model in fp32, its half-lives spread from a few to thousands of tokens."""
    torch.manual_seed(seed)
    model = Qwen3_5ForCausalLM(architecture.config()).float()
    residual = 3 / math.sqrt(2 * architecture.layers)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.mlp.down_proj.weight.mul_(residual)
            if hasattr(layer, "self_attn"):
                layer.self_attn.o_proj.weight.mul_(residual)
                if not architecture.rotary:
                    layer.self_attn.q_norm.weight[: rotary_dims(model)] = -1.0  # the norm scales by 1 + weight
            else:
                layer.linear_attn.out_proj.weight.mul_(residual)
                layer.linear_attn.conv1d.weight.uniform_(-0.5, 0.5)
                spread_half_lives(layer.linear_attn, architecture.slow_heads)
    return model


def rotary_dims(model: Qwen3_5ForCausalLM) -> int:
    """How many leading dims of an attention head are rotated."""
    return int(model.config.head_dim * model.config.rope_parameters["partial_rotary_factor"])


@torch.no_grad()
def spread_half_lives(gdn: Any, slow_heads: int) -> None:
    """Draw the decays of a GDN layer; the last ``slow_heads`` heads of it get long half-lives that no input changes.

    A head's log-decay is ``-exp(A_log) · softplus(a + dt_bias)``, its half-life ``ln 2`` over that.
    """
    heads = gdn.num_v_heads
    gdn.A_log.copy_(torch.empty(heads).uniform_(1, 8).log())
    step = torch.logspace(-4, -1, heads)[torch.randperm(heads)]
    if slow_heads:
        slow = slice(heads - slow_heads, None)
        low, high = (math.log(h) for h in SLOW_HALF_LIVES)
        half_lives = torch.empty(slow_heads).uniform_(low, high).exp()
        step[slow] = math.log(2) / half_lives / gdn.A_log[slow].exp()
        gdn.in_proj_a.weight[slow] = 0.0
    gdn.dt_bias.copy_(step + torch.log(-torch.expm1(-step)))  # the inverse of softplus


def trainable(model: Qwen3_5ForCausalLM, architecture: Architecture) -> dict[str, Tensor]:
    """Masks (1 trained, 0 fixed) of the parameters that are partly fixed, by name."""
    masks: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        mask = torch.ones_like(parameter)
        if architecture.slow_heads and name.endswith(("A_log", "dt_bias", "in_proj_a.weight")):
            mask[architecture.value_heads - architecture.slow_heads :] = 0
        if not architecture.rotary and name.endswith("q_norm.weight"):
            mask[: rotary_dims(model)] = 0
        if not mask.all():
            masks[name] = mask
    return masks

"""A fast training forward for ``Qwen3_5ForCausalLM``: the model's own parameters and mathematics, in plain torch that compiles well.

The gated delta rule (Yang et al., Gated Delta Networks, 2024) runs in chunks: inside a chunk the writes are resolved by one unit
lower-triangular system, between chunks the states follow a linear recurrence. Two things make it fast: the triangular inverse is built
from blocks in a few batched products, and the recurrence is solved by pairing chunks, in a logarithmic number of batched products.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

CHUNK = 64
BLOCK = 8


class FastModel:
    """Logits of a transformers model by the fast forward.

    Args:
        model: the model whose parameters are used, as they are.
        compiled: compile each kind of layer with ``torch.compile``; shapes must then stay the same.
    """

    def __init__(self, model: Qwen3_5ForCausalLM, compiled: bool = False) -> None:
        self.model = model
        self._layer: Any = torch.compile(decoder_layer, dynamic=False) if compiled else decoder_layer

    def hidden(self, ids: Tensor, visible: Tensor | None = None) -> Tensor:
        """Final hidden states ``[B, T, hidden]`` of token ids ``[B, T]``.

        Args:
            visible: bool ``[B, 1, T, T]``, which entries (last axis) each query attends to; causal attention if absent. It
                concerns attention alone: the GDN layers read every token.
        """
        cos, sin = self._rotary(ids.shape[1], ids.device)
        hidden = self.model.model.embed_tokens(ids)
        if torch.is_autocast_enabled(ids.device.type):
            hidden = hidden.to(torch.get_autocast_dtype(ids.device.type))
        for layer in self.model.model.layers:
            hidden = self._layer(layer, hidden, cos, sin, visible)
        return rms_norm(hidden, self.model.model.norm)

    def __call__(self, ids: Tensor, visible: Tensor | None = None) -> Tensor:
        """Logits ``[B, T, vocabulary]``."""
        return F.linear(self.hidden(ids, visible), self.model.lm_head.weight)

    def _rotary(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        config = self.model.config
        dims = int(config.head_dim * config.rope_parameters["partial_rotary_factor"])
        frequencies = config.rope_parameters["rope_theta"] ** (-torch.arange(0, dims, 2, device=device).float() / dims)
        angles = torch.arange(length, device=device).float()[:, None] * frequencies
        angles = torch.cat([angles, angles], -1)
        return angles.cos(), angles.sin()


def decoder_layer(layer: Any, hidden: Tensor, cos: Tensor, sin: Tensor, visible: Tensor | None) -> Tensor:
    """One decoder layer, ``[B, T, hidden]`` to the same."""
    normed = rms_norm(hidden, layer.input_layernorm)
    if hasattr(layer, "linear_attn"):
        hidden = hidden + gdn(layer.linear_attn, normed)
    else:
        hidden = hidden + attention(layer.self_attn, normed, cos, sin, visible)
    normed, mlp = rms_norm(hidden, layer.post_attention_layernorm), layer.mlp
    return hidden + mlp.down_proj(F.silu(mlp.gate_proj(normed)) * mlp.up_proj(normed))


def attention(module: Any, x: Tensor, cos: Tensor, sin: Tensor, visible: Tensor | None) -> Tensor:
    """Gated attention over ``x [B, T, hidden]``."""
    batch, length, _ = x.shape
    query, gate = module.q_proj(x).view(batch, length, -1, 2 * module.head_dim).chunk(2, -1)
    key = module.k_proj(x).view(batch, length, -1, module.head_dim)
    value = module.v_proj(x).view(batch, length, -1, module.head_dim).transpose(1, 2)
    query = rotate(rms_norm(query, module.q_norm).transpose(1, 2), cos, sin)
    key = rotate(rms_norm(key, module.k_norm).transpose(1, 2), cos, sin)
    key, value = (t.repeat_interleave(module.num_key_value_groups, 1) for t in (key, value))
    out = F.scaled_dot_product_attention(
        query, key, value.to(query.dtype), attn_mask=visible, is_causal=visible is None, scale=module.scaling
    )
    out = out.transpose(1, 2).reshape(batch, length, -1)
    return module.o_proj(out * torch.sigmoid(gate.reshape(batch, length, -1)))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions on the leading dims of ``x [B, heads, T, D]``; the other dims pass."""
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    rotated, passed = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    first, second = rotated.chunk(2, -1)
    return torch.cat([rotated * cos + torch.cat([-second, first], -1) * sin, passed], -1)


def gdn(module: Any, x: Tensor) -> Tensor:
    """A Gated DeltaNet layer over ``x [B, T, hidden]``."""
    batch, length, _ = x.shape
    projections = (module.in_proj_qkv, module.in_proj_z, module.in_proj_b, module.in_proj_a)
    widths = [module.conv_dim, module.value_dim, module.num_v_heads, module.num_v_heads]
    mixed, z, b, a = F.linear(x, torch.cat([p.weight for p in projections])).split(widths, -1)
    mixed = F.silu(causal_convolution(mixed, module.conv1d.weight[:, 0]))
    query, key, value = mixed.split([module.key_dim, module.key_dim, module.value_dim], -1)
    log_decay = -module.A_log.float().exp() * F.softplus(a.float() + module.dt_bias.float())
    out = gated_delta_rule(
        query.reshape(batch, length, -1, module.head_k_dim),
        key.reshape(batch, length, -1, module.head_k_dim),
        value.reshape(batch, length, -1, module.head_v_dim),
        log_decay,
        torch.sigmoid(b.float()),
    ).float()
    out = out * torch.rsqrt(out.square().mean(-1, keepdim=True) + module.norm.variance_epsilon)
    out = out * module.norm.weight.float() * F.silu(z.reshape_as(out).float())
    return module.out_proj(out.reshape(batch, length, -1).to(x.dtype))


def causal_convolution(x: Tensor, weight: Tensor) -> Tensor:
    """Depthwise causal convolution of ``x [B, T, channels]`` with ``weight [channels, width]``: shifts and sums fuse well."""
    length, width = x.shape[1], weight.shape[1]
    padded, weight = F.pad(x, (0, 0, width - 1, 0)), weight.to(x.dtype)
    out = padded[:, :length] * weight[:, 0]
    for i in range(1, width):
        out = out + padded[:, i : i + length] * weight[:, i]
    return out


def gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule from an empty state.

    Args:
        query, key: ``[B, T, Hk, D]``, not yet normalised.
        value: ``[B, T, V, D]``; ``V`` is a multiple of ``Hk``, neighbouring value heads share a key head.
        log_decay, beta: fp32 ``[B, T, V]``.

    Returns:
        ``[B, T, V, D]`` in the dtype of ``value``. Decays and the triangular system are fp32; the large products are bf16 on a GPU.
    """
    length = value.shape[1]
    if length % CHUNK:  # a token that writes nothing and forgets nothing
        tail = CHUNK - length % CHUNK
        query, key, value = (F.pad(t, (0, 0, 0, 0, 0, tail)) for t in (query, key, value))
        log_decay, beta = (F.pad(t, (0, 0, 0, tail)) for t in (log_decay, beta))
    with torch.autocast(value.device.type, enabled=False):
        return _chunked(query, key, value, log_decay, beta)[:, :length]


def _chunked(query: Tensor, key: Tensor, value: Tensor, log_decay: Tensor, beta: Tensor) -> Tensor:
    batch, length, key_heads, dim = key.shape
    heads = value.shape[2]
    product = torch.bfloat16 if value.device.type == "cuda" else torch.float32

    def chunks(x: Tensor) -> Tensor:  # [B, T, H, …] -> [B, H, n, CHUNK, …]
        return x.float().transpose(1, 2).reshape(batch, x.shape[2], length // CHUNK, CHUNK, *x.shape[3:])

    def by_value_head(x: Tensor) -> Tensor:  # key heads repeated for their value heads, after the products they share
        return x.repeat_interleave(heads // key_heads, 1)

    q, k, v = chunks(unit(query) * dim**-0.5), chunks(unit(key)), chunks(value)
    beta, decay = chunks(beta)[..., None], chunks(log_decay).cumsum(-1)
    keys = k.to(product)
    key_key, query_key = (by_value_head((x.to(product) @ keys.mT).float()) for x in (k, q))
    q, k = by_value_head(q), by_value_head(k)
    causal = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=value.device).tril()
    between = (decay[..., :, None] - decay[..., None, :]).masked_fill(~causal, -torch.inf).exp()
    since_start, to_end = decay.exp()[..., None], (decay[..., -1:] - decay).exp()[..., None]

    # What token i really writes: its value less what the chunk's earlier tokens and the state already hold under its key.
    solve = unit_lower_inverse((key_key * between * beta).tril(-1)).to(product)
    writes = solve @ (v * beta).to(product)
    reads = solve @ (k * beta * since_start).to(product)
    kept = (k * to_end).to(product).mT
    forget = torch.eye(dim, device=value.device) * decay[..., -1].exp()[..., None, None] - (kept @ reads).float()
    state = states_before(forget, (kept @ writes).float()).to(product)
    new = writes - reads @ state
    out = (q * since_start).to(product) @ state + (query_key * between).to(product) @ new
    return out.reshape(batch, heads, length, dim).transpose(1, 2).to(value.dtype)


def unit(x: Tensor) -> Tensor:
    """L2-normalised in fp32, as the reference kernels do it."""
    x = x.float()
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def rms_norm(x: Tensor, norm: Any) -> Tensor:
    """The family's RMS norm, whose weight is centred on zero."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + norm.eps) * (1.0 + norm.weight.float())).to(
        x.dtype
    )


def states_before(forget: Tensor, write: Tensor) -> Tensor:
    """States ``S`` with ``S[0] = 0``, ``S[c + 1] = forget[c] S[c] + write[c]``, over axis 2 of ``[B, H, n, D, D]``.

    Neighbours are joined into one step, the half as long recurrence is solved, and the states between follow from it.
    """
    count = write.shape[2]
    if count == 1:
        return torch.zeros_like(write)
    if count % 2:
        forget, write = (F.pad(t, (0, 0, 0, 0, 0, 1)) for t in (forget, write))
    forget_first, forget_second = forget[:, :, 0::2], forget[:, :, 1::2]
    write_first, write_second = write[:, :, 0::2], write[:, :, 1::2]
    even = states_before(forget_second @ forget_first, forget_second @ write_first + write_second)
    odd = forget_first @ even + write_first
    return torch.stack([even, odd], 3).flatten(2, 3)[:, :, :count]


def unit_lower_inverse(lower: Tensor) -> Tensor:
    """``(I + lower)⁻¹`` for strictly lower-triangular ``lower [..., CHUNK, CHUNK]``, differentiable.

    Blocks of 8 are inverted by their nilpotent series, then merged two by two. The series over the whole matrix would be shorter, but
    its powers overflow where keys repeat.
    """
    inverse: Tensor = _UnitLowerInverse.apply(lower)
    return inverse


class _UnitLowerInverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lower: Tensor) -> Tensor:
        size, shape = BLOCK, lower.shape
        lower = lower.reshape(-1, CHUNK, CHUNK)
        power = -_diagonal_blocks(lower, size, 0, size)
        inverse = power + torch.eye(size, device=lower.device, dtype=lower.dtype)
        for _ in range(2):  # I + x + … + x⁷ = (I + x)(I + x²)(I + x⁴)
            power = power @ power
            inverse = inverse + inverse @ power
        while size < CHUNK:
            first, second = inverse[:, 0::2], inverse[:, 1::2]
            corner = -(second @ _diagonal_blocks(lower, 2 * size, size, size) @ first)
            top = torch.cat([first, torch.zeros_like(first)], -1)
            inverse = torch.cat([top, torch.cat([corner, second], -1)], -2)
            size *= 2
        inverse = inverse.reshape(shape)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        return -(inverse.mT @ gradients[0] @ inverse.mT).tril(-1)


def _diagonal_blocks(x: Tensor, stride: int, row: int, size: int) -> Tensor:
    """The ``size``-square blocks of ``x [n, C, C]`` at ``(start + row, start)`` for every start that is a multiple of ``stride``."""
    return torch.stack([x[:, s + row : s + row + size, s : s + size] for s in range(0, x.shape[1], stride)], 1)

"""What a KV entry is worth: the exact change of its layer's output when it is removed (§2, Eq. 2; Appendix B)."""

from __future__ import annotations

import torch


def influence(
    logits: torch.Tensor, values: torch.Tensor, w_o: torch.Tensor, entries: int | None = None
) -> torch.Tensor:
    """Exact joint leave-one-out influence of entries on the attention outputs of one KV head's query group.

    ``influence(t, i) = ‖ Σ_j W_O^(j) a_j(t,i) / (1 − a_j(t,i)) (o_j(t) − v_i) ‖₂``: the change of the layer's ungated output
    after the output projection when entry i leaves the softmax of all query heads j, everything else held fixed.
    Two steps keep it exact in float32: values are centred (the expression does not change, its terms shrink), and where
    an entry holds more than half of a row, the output without it is a second softmax, so that 1 − a is never formed.
    ``[T, N, hidden]`` is never formed either: the norm is a quadratic form in the Gram matrices of W_O.

    Args:
        logits: ``[J, T, N]`` scaled attention logits of the group's J query heads, -inf where a row does not see an entry.
            A row must see at least two entries.
        values: ``[N, D]`` values of all entries.
        w_o: ``[J, D, hidden]``, the slices W_O^(j) transposed.
        entries: only the first ``entries`` are judged (the context, without the continuation); all if not given.

    Returns:
        ``[T, entries]`` in the dtype of ``logits``.
    """
    n = logits.shape[-1] if entries is None else entries
    values = values - values[:n].mean(0)
    attention = logits.softmax(-1)
    outputs = attention @ values  # [J, T, D]
    odds = attention[..., :n] / (1 - attention[..., :n]).clamp(min=0.5)  # rows beyond one half are replaced below
    squared = _quadratic_form(odds, outputs, values[:n], w_o)
    result = squared.clamp_(min=0).sqrt_()

    share, entry = attention.max(-1)  # [J, T]: the only entry that can hold more than half of a row
    head, row = ((share > 0.5) & (entry < n)).nonzero(as_tuple=True)
    if len(head):
        pairs = torch.stack([row, entry[head, row]]).unique(dim=1)
        result[pairs[0], pairs[1]] = _removed(logits, attention, values, w_o, pairs[0], pairs[1])
    return result


def utility(logits: torch.Tensor, values: torch.Tensor, w_o: torch.Tensor, entries: int | None = None) -> torch.Tensor:
    """``[entries]`` U(i): the largest influence of entry i on any row; arguments as in :func:`influence`."""
    return influence(logits, values, w_o, entries).amax(0)


def _quadratic_form(odds: torch.Tensor, outputs: torch.Tensor, values: torch.Tensor, w_o: torch.Tensor) -> torch.Tensor:
    """``‖ Σ_j W_j r_j(t,i) (o_j(t) − v_i) ‖²`` as ``[T, N]`` from odds r ``[J, T, N]``, expanded over pairs of heads."""
    squared = torch.zeros_like(odds[0])
    for j in range(len(w_o)):
        for k in range(j, len(w_o)):
            gram = w_o[j] @ w_o[k].T  # [D, D]
            projected = outputs[j] @ gram
            cross = (projected + outputs[k] @ gram.T) @ values.T  # [T, N]
            alone = (projected * outputs[k]).sum(-1, keepdim=True) + ((values @ gram) * values).sum(-1)
            squared += odds[j] * odds[k] * (alone - cross) * (1 if j == k else 2)
    return squared


def _removed(
    logits: torch.Tensor,
    attention: torch.Tensor,
    values: torch.Tensor,
    w_o: torch.Tensor,
    rows: torch.Tensor,
    entries: torch.Tensor,
) -> torch.Tensor:
    """``‖ Σ_j W_j a_j (o_j without i − v_i) ‖`` for P pairs (row, entry): the same change, by a second softmax; ``[P]``."""
    others = logits[:, rows].scatter(-1, entries.expand(len(logits), -1)[..., None], -torch.inf)  # [J, P, N]
    change = (others.softmax(-1) @ values - values[entries]) * attention[:, rows, entries][..., None]  # [J, P, D]
    return torch.einsum("jpd,jde->pe", change, w_o).norm(dim=-1)

"""The bank: the estimators of all folds, attention layers and KV heads, trained at once and yet independent of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import nn

from gatesight.features import AGE_FEATURES

AGE = len(AGE_FEATURES)


class EstimatorBank(nn.Module):
    """F × L × H MLPs (inputs → hidden → 1, ReLU; §4.1), each with its own parameters, as one batched matmul a layer.

    The heads of a layer read the same inputs, so a layer is ``[F, rows, in] @ [F, in, H·hidden]``. Inputs are
    standardised per fold. MLP (f, l, h) starts from what two ``nn.Linear`` give under a seed made of ``seed``, the
    fold's name, l and h: it is the same MLP in whatever bank it trains.

    Args:
        columns: for each attention layer, the columns of the flattened signals that it reads (maybe none).
        signals: number of columns of the flattened signals.
        heads: KV heads of an attention layer.
        folds: names of the folds.
        hidden: hidden units of an MLP.
        seed: seed of the initial parameters.
    """

    def __init__(
        self, columns: Sequence[slice], signals: int, heads: int, folds: Sequence[str], hidden: int = 64, seed: int = 0
    ) -> None:
        super().__init__()
        self.columns, self.heads, self.folds = list(columns), heads, list(folds)
        self.shift: torch.Tensor
        self.scale: torch.Tensor
        self.register_buffer("shift", torch.zeros(len(folds), signals + AGE))
        self.register_buffer("scale", torch.ones(len(folds), signals + AGE))
        self.w1, self.b1, self.w2, self.b2 = (nn.ParameterList() for _ in range(4))
        for layer, window in enumerate(self.columns):
            inputs = window.stop - window.start + AGE
            mlps = [[_initial(inputs, hidden, seed, fold, layer, h) for h in range(heads)] for fold in folds]
            for tensors, part in zip((self.w1, self.b1, self.w2, self.b2), range(4), strict=True):
                stacked = torch.stack([torch.stack([mlp[part] for mlp in row]) for row in mlps])
                # [F, H, in, hidden] -> [F, in, H, hidden]: all heads of a layer side by side in one matmul
                tensors.append(nn.Parameter(stacked.transpose(1, 2).contiguous() if part == 0 else stacked))

    def forward(self, signals: torch.Tensor, age: torch.Tensor, fold: int | None = None) -> torch.Tensor:
        """Logits of every MLP, or of those of one fold.

        Args:
            signals: ``[rows, G, V, 3]`` or flattened, float32, as recorded.
            age: ``[rows, 3]`` age features.
            fold: index of the only fold to run.

        Returns:
            ``[F, L, H, rows]``, or ``[1, L, H, rows]`` for one fold.
        """
        chosen = slice(None) if fold is None else slice(fold, fold + 1)
        shift, scale = self.shift[chosen, None], self.scale[chosen, None]
        inputs = (signals.flatten(1) - shift[..., :-AGE]) * scale[..., :-AGE]
        age = (age - shift[..., -AGE:]) * scale[..., -AGE:]
        return torch.stack([self._layer(layer, inputs, age, chosen) for layer in range(len(self.columns))], dim=1)

    def _layer(self, layer: int, inputs: torch.Tensor, age: torch.Tensor, folds: slice) -> torch.Tensor:
        window = self.columns[layer]
        w_signals, w_age = self.w1[layer][folds].flatten(2).split([window.stop - window.start, AGE], dim=1)
        hidden = torch.baddbmm(self.b1[layer][folds].flatten(1)[:, None], age, w_age)
        if window.stop > window.start:
            hidden = torch.baddbmm(hidden, inputs[..., window], w_signals)
        hidden = hidden.relu().unflatten(-1, (self.heads, -1))
        return torch.einsum("frhk,fhk->fhr", hidden, self.w2[layer][folds]) + self.b2[layer][folds][..., None]

    @torch.no_grad()
    def clip_gradients(self, max_norm: float) -> None:
        """Clip the gradient of each MLP by its own norm, as ``clip_grad_norm_`` would on each alone."""
        for w1, b1, w2, b2 in zip(self.w1, self.b1, self.w2, self.b2, strict=True):
            gradients = [w1.grad, b1.grad, w2.grad, b2.grad]
            if any(gradient is None for gradient in gradients):
                continue
            dims = ((1, 3), (2,), (2,), ())
            squares = [g.square().sum(d) if d else g.square() for g, d in zip(gradients, dims, strict=True)]
            factor = (max_norm / (sum(squares).sqrt() + 1e-6)).clamp_(max=1.0)  # [F, H]
            shapes = (factor[:, None, :, None], factor[..., None], factor[..., None], factor)
            for gradient, shape in zip(gradients, shapes, strict=True):
                gradient.mul_(shape)


def _initial(inputs: int, hidden: int, seed: int, fold: str, layer: int, head: int) -> tuple[torch.Tensor, ...]:
    """w1 ``[in, hidden]``, b1 ``[hidden]``, w2 ``[hidden]`` and b2 ``[]`` of one MLP."""
    digest = hashlib.sha256(f"{seed}/{fold}/{layer}/{head}".encode()).digest()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
        first, second = nn.Linear(inputs, hidden), nn.Linear(hidden, 1)
    return first.weight.detach().T, first.bias.detach(), second.weight.detach()[0], second.bias.detach()[0]

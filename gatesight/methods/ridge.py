"""Ridge regression on what the MLPs read, in closed form and for all folds at once (Tables 1 and 5).

One pass over the documents gathers, for every corpus and attention layer, the Gram matrix of inputs, a constant and labels. A fold's
regression follows from the sum over its training corpora: leaving a corpus out costs no second pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from gatesight.features import AGE_FEATURES

AGE = len(AGE_FEATURES)
PENALTIES = torch.logspace(-7, 2, 19, dtype=torch.float64)
"""λ per row; the one with the least generalised cross-validation error is taken, for each KV head by itself."""


class Ridge(nn.Module):
    """Linear predictors of all folds, attention layers and KV heads; float64 throughout, scores float32.

    Args:
        columns: for each attention layer, the columns of the flattened signals that it reads.
        heads: KV heads of an attention layer.
        counts: ``[F, C]`` bool, which corpora count in which fold.
    """

    def __init__(self, columns: Sequence[slice], heads: int, counts: torch.Tensor) -> None:
        super().__init__()
        self.columns, self.heads = list(columns), heads
        self.counts: torch.Tensor
        self.register_buffer("counts", counts, persistent=False)
        sizes = [window.stop - window.start + AGE for window in columns]
        corpora, folds = counts.shape[1], counts.shape[0]
        self._grams = [torch.zeros(corpora, size + 1 + heads, size + 1 + heads).double() for size in sizes]
        for layer, size in enumerate(sizes):  # the last input is the constant
            self.register_buffer(f"weights_{layer}", torch.zeros(folds, size + 1, heads).double())

    def add(self, signals: torch.Tensor, age: torch.Tensor, label: torch.Tensor, corpus: int) -> None:
        """Count in the entries of a document.

        Args:
            signals: ``[rows, G, V, 3]``.
            age: ``[rows, 3]``.
            label: ``[L, H, rows]``.
            corpus: index of the document's corpus.
        """
        for layer, label_of_layer in enumerate(label):
            rows = torch.cat([self._inputs(layer, signals, age), label_of_layer.T.double()], dim=1)
            self._grams[layer] = self._grams[layer].to(rows.device)
            self._grams[layer][corpus] += rows.T @ rows

    def solve(self) -> None:
        """Set the weights of every fold from what was counted in, and let the Gram matrices go."""
        for layer, gram in enumerate(self._grams):
            for fold, counts in enumerate(self.counts):
                self._weights(layer)[fold] = solve_ridge(gram[counts.to(gram.device)].sum(0), self.heads)
        self._grams = []

    def forward(self, signals: torch.Tensor, age: torch.Tensor, fold: int) -> torch.Tensor:
        """``[L, H, rows]`` float32 predictions of one fold."""
        layers = [self._inputs(i, signals, age) @ self._weights(i)[fold] for i in range(len(self.columns))]
        return torch.stack(layers).transpose(1, 2).float()

    def _weights(self, layer: int) -> torch.Tensor:
        """``[F, in + 1, H]``."""
        return self.get_buffer(f"weights_{layer}")

    def _inputs(self, layer: int, signals: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """``[rows, in + 1]`` float64."""
        window = signals.flatten(1)[:, self.columns[layer]]
        return torch.cat([window, age, torch.ones_like(age[:, :1])], dim=1).double()


def solve_ridge(gram: torch.Tensor, targets: int) -> torch.Tensor:
    """Ridge regression from a Gram matrix: inputs standardised, the constant not penalised, λ by generalised cross-validation.

    With singular values s² of the standardised inputs, GCV(λ) = n · RSS(λ) / (n − df(λ))², df(λ) = 1 + Σ s²/(s² + λ) (Golub, Heath and
    Wahba 1979).

    Args:
        gram: ``[in + 1 + T, in + 1 + T]`` float64, of rows (inputs, 1, targets).
        targets: T.

    Returns:
        ``[in + 1, T]``: weights of the inputs as they are, and the intercept.
    """
    inputs = len(gram) - 1 - targets
    n, sums = gram[inputs, inputs], gram[inputs]
    centred = gram - torch.outer(sums, sums) / n
    mean = sums[:inputs] / n
    deviation = (centred.diagonal()[:inputs].clamp(min=0) / n).sqrt()
    varies = deviation > 1e-7 * mean.abs()  # what rounding leaves of a constant input is less
    scale = torch.where(varies, 1 / deviation, 0)
    covariance = centred[:inputs, :inputs] * torch.outer(scale, scale)
    values, vectors = torch.linalg.eigh(covariance)
    values = values.clamp(min=0)
    target = vectors.T @ (centred[:inputs, inputs + 1 :] * scale[:, None])  # [in, T]
    energy = centred.diagonal()[inputs + 1 :]

    shrunk = 1 / (values + n * PENALTIES.to(gram)[:, None])  # [λ, in]
    explained = (2 * shrunk - values * shrunk.square()) @ target.square()  # [λ, T]
    freedom = 1 + (values * shrunk).sum(1)
    error = n * (energy - explained) / (n - freedom)[:, None].square()
    error = torch.where((freedom < n)[:, None], error, torch.inf)
    best = shrunk[error.argmin(0)]  # [T, in]
    weights = vectors @ (best.T * target) * scale[:, None]
    intercept = (sums[inputs + 1 :] / n) - mean @ weights
    return torch.cat([weights, intercept[None]])

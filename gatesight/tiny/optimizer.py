"""AdamW for vectors and embeddings, Muon for the matrices of the layers; one step can be captured in a CUDA graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import torch
from torch import Tensor, nn


class Muon:
    """Momentum orthogonalised by Newton-Schulz iterations (Jordan et al., 2024), all matrices of one shape in one batch.

    The update is scaled to a root mean square of 0.2, as AdamW's is (Liu et al., Muon is scalable for LLM training, 2025).
    """

    momentum = 0.95
    weight_decay = 0.02

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        self._groups: dict[torch.Size, list[Tensor]] = defaultdict(list)
        for parameter in parameters:
            self._groups[parameter.shape].append(parameter)
        self._momenta = {
            shape: torch.zeros(len(group), *shape, device=group[0].device) for shape, group in self._groups.items()
        }

    @torch.no_grad()
    def step(self, rate: Tensor) -> None:
        """One update at the learning rate ``rate``, a scalar tensor."""
        for shape, group in self._groups.items():
            gradient, momentum = torch.stack([p.grad for p in group if p.grad is not None]), self._momenta[shape]
            momentum.lerp_(gradient, 1 - self.momentum)
            update = orthogonal(gradient.lerp(momentum, self.momentum)) * (0.2 * max(shape) ** 0.5)
            update += self.weight_decay * torch.stack([p.detach() for p in group])
            torch._foreach_add_(group, list((-rate * update).unbind(0)))


def orthogonal(matrices: Tensor) -> Tensor:
    """The nearest semi-orthogonal matrices, nearly, of ``[n, rows, columns]``."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return (x.mT if tall else x).float()


class Optimizer:
    """Updates every parameter of a model; gradients are clipped to norm 1, and one that is not finite counts as zero.

    Args:
        fixed: masks of parameters that are partly fixed (``architecture.trainable``): their gradient is multiplied by it.
        rate, matrix_rate: peak learning rates of AdamW and of Muon.
    """

    def __init__(self, model: nn.Module, fixed: Mapping[str, Tensor], rate: float, matrix_rate: float) -> None:
        named = dict(model.named_parameters())
        self.parameters = list(named.values())
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        device = self.parameters[0].device
        self._masked = [(named[name], mask.to(device)) for name, mask in fixed.items()]
        matrices = [p for name, p in named.items() if _is_matrix(name, p)]
        chosen = {id(p) for p in matrices}
        self._rates, self._peaks = [torch.zeros((), device=device) for _ in range(2)], (rate, matrix_rate)
        self._muon = Muon(matrices)
        self._adam = torch.optim.AdamW(
            [p for p in self.parameters if id(p) not in chosen],
            lr=self._rates[0],
            betas=(0.9, 0.95),
            weight_decay=0.0,
            fused=device.type == "cuda",
            capturable=device.type == "cuda",
        )

    def set_rate(self, share: float) -> None:
        """Set the learning rates to a share of their peaks."""
        for rate, peak in zip(self._rates, self._peaks, strict=True):
            rate.fill_(share * peak)

    def zero_grad(self) -> None:
        torch._foreach_zero_([p.grad for p in self.parameters if p.grad is not None])

    @torch.no_grad()
    def step(self) -> Tensor:
        """Update the parameters; the gradient norm before clipping."""
        for parameter, mask in self._masked:
            if parameter.grad is not None:
                parameter.grad.mul_(mask)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
        finite = torch.isfinite(norm)
        scale = torch.where(finite, (1.0 / (norm + 1e-6)).clamp(max=1.0), 0.0)
        for gradient in gradients:
            gradient.copy_(torch.where(finite, gradient, 0.0) * scale)
        self._adam.step()
        self._muon.step(self._rates[1])
        return norm


def _is_matrix(name: str, parameter: nn.Parameter) -> bool:
    """Matrices of the layers, but not embeddings nor the thin projections of the gates."""
    return parameter.ndim == 2 and not any(part in name for part in ("embed", "in_proj_a", "in_proj_b"))

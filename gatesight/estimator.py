"""The estimator that is served: one fold of a bank, with its standardisation folded into the first layers."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatesight.artifact import push_artifact, read_artifact, write_artifact
from gatesight.errors import GateSightError
from gatesight.features import AGE_FEATURES, SIGNALS, age_features, window_columns
from gatesight.layout import HybridLayout

AGE = len(AGE_FEATURES)
CHUNK = 8192
"""Tokens scored at a time: bounds the memory of :meth:`Estimator.score` whatever the context's length."""


class Estimator(nn.Module):
    """Predicts the max-normalised utility of every KV entry from native signals (§4.1).

    Args:
        layout: the model's layout.
        window: GDN layers that an attention layer's estimators read, as far as there are that many.
        tensors: ``shift [G, V, 3]``, ``gate [L]`` and, for the l-th attention layer, ``l.w1 [in, H·hidden]``,
            ``l.b1 [H·hidden]``, ``l.w2 [H, hidden]`` and ``l.b2 [H]``, float32.
        info: further facts for the artifact: model, training, metrics, versions.

    Raises:
        GateSightError: a tensor is missing or has another shape than the layout asks for.

    The scales of the standardisation are part of ``w1``; its shifts are subtracted first, in float32, since folding
    those too would cancel digits of signals that hardly vary.
    """

    def __init__(
        self, layout: HybridLayout, window: int, tensors: dict[str, torch.Tensor], info: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self.layout, self.window, self.info = layout, window, info or {}
        self.columns = window_columns(layout, window)
        self._check(tensors)
        self.shift: torch.Tensor
        self.gate: torch.Tensor
        for name, tensor in tensors.items():
            self.register_buffer(name.replace(".", "_"), tensor.float())

    @classmethod
    def from_pretrained(cls, source: str | Path) -> Estimator:
        """Load an artifact from a folder or from the hub (``owner/name``).

        Raises:
            GateSightError: nothing is there, or it is not an intact artifact of this format.
        """
        tensors, config = read_artifact(source)
        try:
            layout = HybridLayout.from_dict(config.pop("layout"))
            window, layout_hash = int(config.pop("window")), config.pop("layout_hash")
        except (KeyError, TypeError) as error:
            raise GateSightError(f"the artifact at '{source}' describes no layout ({error}): export it anew.") from None
        if layout.hash != layout_hash:
            raise GateSightError(
                f"the layout of the artifact at '{source}' does not match its hash {layout_hash}: export it anew."
            )
        if config.get("features") != _features():
            raise GateSightError(
                f"the artifact at '{source}' reads other features than this version computes: export it anew."
            )
        try:
            return cls(layout, window, tensors, config)
        except GateSightError as error:
            raise GateSightError(f"the artifact at '{source}' is damaged: {error}") from None

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the artifact folder: weights, ``gatesight.json`` and a model card.

        Raises:
            GateSightError: the disk is full or the folder cannot be written.
        """
        own = {
            "features": _features(),
            "window": self.window,
            "layout": self.layout.to_dict(),
            "layout_hash": self.layout.hash,
        }
        write_artifact(Path(folder), self._tensors(), {**_UNKNOWN, **self.info, **own})

    def push_to_hub(self, repo_id: str, private: bool = False) -> str:
        """Upload the artifact to the hub; returns its address.

        Raises:
            GateSightError: the hub cannot be reached or refuses.
        """
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return push_artifact(Path(folder), repo_id, private)

    def check_model(self, layout: HybridLayout) -> None:
        """Refuse a model that the estimator was not made for.

        Raises:
            GateSightError: the layouts differ; the sentence names the first difference.
        """
        mine, theirs = self.layout.to_dict(), layout.to_dict()
        for field, value in mine.items():
            if theirs[field] != value:
                raise GateSightError(
                    f"this estimator was made for another model: its {field} is {value}, the model's is {theirs[field]}."
                )

    @torch.inference_mode()
    def score(self, signals: torch.Tensor, start: int = 0, n: int | None = None) -> torch.Tensor:
        """Predicted utility of entries, each relative to the largest of its layer and KV head.

        Works in bounded memory and on a part of a context: a chunk of a prefill gives what the whole would.

        Args:
            signals: ``[m, G, V, 3]`` β, g, ‖v‖ of tokens ``start`` … ``start + m``, any float dtype.
            start: position of the first token.
            n: length of the whole context; ``start + m`` if not given.

        Returns:
            ``[L, H, m]`` float32 in [0, 1], higher is kept first.

        Raises:
            GateSightError: the signals have another shape than the layout, or lie outside the context.
        """
        m, n = len(signals), start + len(signals) if n is None else n
        if signals.shape[1:] != self.shift.shape or not 0 <= start <= start + m <= n:
            raise GateSightError(
                f"signals {list(signals.shape)} at {start} of {n} do not fit: expected [m, {', '.join(map(str, self.shift.shape))}] "
                "with start + m ≤ n."
            )
        scores = torch.empty(len(self.columns), self.layout.kv_heads, m, device=self.shift.device)
        for a in range(0, m, CHUNK):
            b = min(a + CHUNK, m)
            inputs = (signals[a:b].to(self.shift) - self.shift).flatten(1)
            age = age_features(torch.arange(start + a, start + b, device=self.shift.device), n)
            for layer, window in enumerate(self.columns):
                scores[layer, :, a:b] = self.score_layer(layer, inputs[:, window], age)
        return scores

    def score_layer(self, layer: int, inputs: torch.Tensor, age: torch.Tensor) -> torch.Tensor:
        """One attention layer: ``[m, |W(l)|·V·3]`` signals less their shift and ``[m, 3]`` age -> ``[H, m]`` scores."""
        w1, b1, w2, b2 = (getattr(self, f"{layer}_{part}") for part in ("w1", "b1", "w2", "b2"))
        hidden = torch.addmm(b1, inputs, w1[:-AGE]).addmm_(age, w1[-AGE:]).relu_().unflatten(1, w2.shape)
        return torch.einsum("mhk,hk->hm", hidden, w2).add_(b2[:, None]).sigmoid_()

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {name.replace("_", "."): tensor for name, tensor in self.named_buffers()}

    def _check(self, tensors: dict[str, torch.Tensor]) -> None:
        layout, heads = self.layout, self.layout.kv_heads
        hidden = tensors["0.w2"].shape[-1] if "0.w2" in tensors else 0
        expected: dict[str, tuple[int, ...]] = {
            "shift": (len(layout.gdn_layers), layout.value_heads, len(SIGNALS)),
            "gate": (len(layout.attention_layers),),
        }
        for layer, window in enumerate(self.columns):
            expected[f"{layer}.w1"] = (window.stop - window.start + AGE, heads * hidden)
            expected[f"{layer}.b1"] = (heads * hidden,)
            expected[f"{layer}.w2"] = (heads, hidden)
            expected[f"{layer}.b2"] = (heads,)
        for name, shape in expected.items():
            if name not in tensors:
                raise GateSightError(f"tensor '{name}' is missing.")
            if tuple(tensors[name].shape) != shape:
                raise GateSightError(
                    f"tensor '{name}' has shape {tuple(tensors[name].shape)}, the layout asks for {shape}."
                )
        if unknown := set(tensors) - set(expected):
            raise GateSightError(f"tensor '{min(unknown)}' is unknown.")


def _features() -> dict[str, list[str]]:
    return {"signals": list(SIGNALS), "age": list(AGE_FEATURES)}


_UNKNOWN: dict[str, Any] = {
    "model": {"name": "unknown", "id": "unknown", "revision": None},
    "label": "U / max U",
    "training": {"corpora": [], "documents": 0, "seed": 0},
    "metrics": {},
    "versions": {},
}
"""What an estimator that was not exported from a run says of itself."""

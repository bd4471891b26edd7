"""Training of all estimators of all folds in one run, and their evaluation beside the baselines."""

from __future__ import annotations

import time
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from lightning import LightningModule
from torch.nn.functional import binary_cross_entropy_with_logits

from data_modules.recording import Batch, Document, RecordingDataModule
from gatesight.bank import EstimatorBank
from gatesight.comparison import Comparison
from gatesight.errors import GateSightError
from gatesight.estimator import Estimator
from gatesight.features import age_features, window_columns
from gatesight.folds import NONE
from gatesight.layout import HybridLayout
from gatesight.methods.age import NewerFirst, OlderFirst
from gatesight.methods.slow_write import SlowWrite, slow_heads

OURS = "gatesight"
METHODS = {
    OURS: "GateSight",
    "age_mlp": "age MLP",
    "older_first": "older first",
    "newer_first": "newer first",
    "slow_write": "slow write",
}
"""Keys of the methods in logs and files, and their names for readers."""
HEADLINE = "test/overlap_at_10"
"""Logged key of the figure that sweeps maximise."""
CHUNK = 8192


class EstimatorModule(LightningModule):
    """Trains a bank of MLPs for every fold, and beside it one that sees only age (§4.1, Appendix G).

    The loss is the sum over MLPs of each one's mean binary cross-entropy over its own rows, those of documents outside
    its fold's corpus; gradients are clipped MLP by MLP. Nothing an MLP learns depends on the others, or on its held-out corpus.
    Logs ``train/loss``, ``val/overlap_at_10`` and, after the test, ``test/<measure>`` and ``test/<method>/<measure>``.

    Args:
        layout: the model's layout, as a dict.
        corpora: names of the recording's corpora.
        folds: the folds to train, as :func:`gatesight.folds.plan_folds` gives them.
        provenance: the recording's provenance (model, revision, …).
        window: GDN layers that an attention layer's estimators read.
        seed: seed of the initial parameters.
        hidden: hidden units of an MLP.
        lr: AdamW's learning rate at the start; it falls to 0 along a cosine (ours).
        weight_decay: AdamW's.
        clip: largest gradient norm of an MLP.
        slow_threshold: half-life in tokens from which a head is slow.
    """

    counts: torch.Tensor
    """``[F, C]`` bool: corpora that count in a fold."""
    slow: torch.Tensor
    """``[F, G, V]`` bool: slow heads by the fold's training corpora."""
    slow_fallback: torch.Tensor
    """``[F]`` bool: no head of the fold reached the threshold."""
    gate: torch.Tensor
    """``[L]`` w_l of the last fold's training corpora: all of them, in the fold that is served."""

    def __init__(
        self,
        layout: dict[str, Any],
        corpora: list[str],
        folds: list[str],
        provenance: dict[str, Any],
        window: int = 6,
        seed: int = 0,
        hidden: int = 64,
        lr: float = 2e-3,
        weight_decay: float = 1e-2,
        clip: float = 1.0,
        slow_threshold: float = 1000.0,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layout = HybridLayout.from_dict(layout)
        self.corpora, self.folds = corpora, folds
        gdn, heads = (len(self.layout.gdn_layers), self.layout.value_heads), self.layout.kv_heads
        columns = window_columns(self.layout, window)
        self.bank = EstimatorBank(columns, gdn[0] * gdn[1] * 3, heads, folds, hidden, seed)
        self.age_bank = EstimatorBank([slice(0, 0)] * len(columns), 0, heads, folds, hidden, seed)
        for name, value in {
            "counts": torch.tensor([[corpus != fold for corpus in corpora] for fold in folds]),
            "slow": torch.zeros(len(folds), *gdn, dtype=torch.bool),
            "slow_fallback": torch.zeros(len(folds), dtype=torch.bool),
            "gate": torch.zeros(len(columns)),
        }.items():
            self.register_buffer(name, value)
        self.comparison = Comparison(list(METHODS), corpora, self.layout.attention_layers)
        self.validation = Comparison([OURS], corpora, self.layout.attention_layers)
        self.results: dict[str, Any] = {}
        self.seconds = 0.0

    # --- training

    def setup(self, stage: str) -> None:
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        if stage == "fit" and isinstance(data, RecordingDataModule):
            self.standardise(data)

    def standardise(self, data: RecordingDataModule) -> None:
        """Take standardisation, slow heads and gate weights from each fold's training corpora alone."""
        statistics, layout = data.statistics, self.layout
        for i in range(len(self.folds)):
            corpora = self.counts[i].nonzero().flatten().tolist()
            shift, scale = statistics.moments(corpora).standardisation()
            half_life, threshold = statistics.half_life(corpora), self.hparams["slow_threshold"]
            for bank in (self.bank, self.age_bank):
                bank.shift[i] = shift[-bank.shift.shape[1] :]
                bank.scale[i] = scale[-bank.scale.shape[1] :]
            self.slow[i], self.slow_fallback[i] = slow_heads(half_life, threshold), half_life.max() < threshold
            self.gate.copy_(statistics.gate_weights(corpora, layout))

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        rows = self.counts[:, batch.corpus].float()  # [F, rows]
        share = rows / self._over_ranks(rows.sum(1, keepdim=True)).clamp(min=1)
        loss = self._loss(self.bank(batch.signals, batch.age), batch.label, share)
        age_loss = self._loss(self.age_bank(batch.signals[:, 0, 0, :0], batch.age), batch.label, share)
        self.log("train/loss", loss.detach() / self.counts.shape[0] / batch.label.shape[:2].numel(), prog_bar=True)
        return loss + age_loss

    def _loss(self, logits: torch.Tensor, label: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        """Sum over MLPs of the mean over each one's rows; an MLP without a row in the batch gets gradient 0."""
        losses = binary_cross_entropy_with_logits(logits, label.expand_as(logits), reduction="none")
        return torch.einsum("flhr,fr->", losses, share)

    def _over_ranks(self, count: torch.Tensor) -> torch.Tensor:
        """Mean over ranks, since gradients are averaged over them."""
        return self.trainer.strategy.reduce(count, reduce_op="mean") if self.trainer.world_size > 1 else count

    def configure_gradient_clipping(self, optimizer: Any, *_: Any, **__: Any) -> None:
        for bank in (self.bank, self.age_bank):
            bank.clip_gradients(self.hparams["clip"])

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.AdamW(
            self.parameters(), lr=self.hparams["lr"], weight_decay=self.hparams["weight_decay"]
        )
        # not trainer.estimated_stepping_batches: it would start reading ahead before a resumed run knows its epoch
        steps = (self.trainer.max_epochs or 1) * self.trainer.datamodule.batches  # type: ignore[attr-defined]
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=steps)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_fit_start(self) -> None:
        self._started = time.perf_counter()

    def on_fit_end(self) -> None:
        self.seconds = time.perf_counter() - self._started

    # --- evaluation: each document by the fold that never saw its corpus

    def fold_of(self, corpus: int) -> int:
        name = self.corpora[corpus]
        return self.folds.index(name if name in self.folds else NONE)

    def scores(self, document: Document, methods: list[str]) -> dict[str, torch.Tensor]:
        """``[L, H, n]`` scores of some methods, in the fold that holds the document's corpus out."""
        fold, signals, n = self.fold_of(document.corpus), document.signals, len(document.signals)
        age = age_features(torch.arange(n, device=signals.device), n)

        def mlp(bank: EstimatorBank, inputs: torch.Tensor) -> torch.Tensor:
            chunks = zip(inputs.split(CHUNK), age.split(CHUNK), strict=True)
            return torch.cat([bank(x, a, fold)[0] for x, a in chunks], dim=-1).sigmoid()

        make = {
            OURS: lambda: mlp(self.bank, signals),
            "age_mlp": lambda: mlp(self.age_bank, signals[:, 0, 0, :0]),
            "older_first": lambda: OlderFirst(self.layout).score(signals),
            "newer_first": lambda: NewerFirst(self.layout).score(signals),
            "slow_write": lambda: SlowWrite(self.layout, self.hparams["window"], self.slow[fold]).score(signals),
        }
        return {name: make[name]() for name in methods}

    def _compare(self, document: Document, comparison: Comparison) -> None:
        body = slice(document.prefix, None)
        for method, scores in self.scores(document, comparison.methods).items():
            comparison.update(method, scores[..., body], document.utility[..., body], document.corpus)

    def validation_step(self, document: Document, batch_idx: int) -> None:
        self._compare(document, self.validation)

    def test_step(self, document: Document, batch_idx: int) -> None:
        self._compare(document, self.comparison)

    def on_validation_epoch_end(self) -> None:
        overall = self.validation.results()[OURS]["overall"]
        self.log_dict({f"val/{name}": value for name, value in overall.items()})

    def on_test_epoch_end(self) -> None:
        self.results = {
            "protocol": "in-sample" if self.folds == [NONE] else "leave-one-corpus-out",
            "documents": self.comparison.documents(),
            "training_seconds": round(self.seconds, 1),
            "notes": self._notes(),
            "methods": self.comparison.results(),
        }
        for method, found in self.results["methods"].items():
            prefix = "test" if method == OURS else f"test/{method}"
            self.log_dict({f"{prefix}/{name}": value for name, value in found["overall"].items()})

    def _notes(self) -> list[str]:
        threshold = self.hparams["slow_threshold"]
        if not self.slow_fallback.any():
            return [f"slow heads: half-life of at least {threshold:g} tokens"]
        return [f"slow heads: the slowest 13%, since no head reaches a half-life of {threshold:g} tokens"]

    # --- export

    def estimator(self, info: dict[str, Any] | None = None) -> Estimator:
        """The fold trained on all corpora, its standardisation folded into the weights.

        Raises:
            GateSightError: the run held out a corpus in every fold.
        """
        if NONE not in self.folds:
            raise GateSightError(
                f"this run trained only the fold that never saw '{self.folds[0]}': export one of fold=loco or fold=none."
            )
        fold, bank = self.folds.index(NONE), self.bank
        shift, scale = bank.shift[fold], bank.scale[fold]
        tensors = {"shift": shift[:-3].reshape(len(self.layout.gdn_layers), -1, 3), "gate": self.gate}
        for layer, window in enumerate(bank.columns):
            w1, b1, w2, b2 = (p[layer][fold].detach() for p in (bank.w1, bank.b1, bank.w2, bank.b2))
            w1 = w1.flatten(1) * torch.cat([scale[:-3][window], scale[-3:]])[:, None]  # [in, H·hidden]
            # age lies in [0, 1], so its shift is folded into the bias without losing digits
            tensors |= {f"{layer}.w1": w1, f"{layer}.b1": b1.flatten() - shift[-3:] @ w1[-3:]}
            tensors |= {f"{layer}.w2": w2, f"{layer}.b2": b2}
        return Estimator(self.layout, self.hparams["window"], tensors, info)


def load_module(checkpoint: Path) -> EstimatorModule:
    """The module of a checkpoint, loaded without pickle's powers.

    Raises:
        GateSightError: the file is damaged or was not written by this module.
    """
    try:
        return EstimatorModule.load_from_checkpoint(checkpoint, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, KeyError, TypeError, EOFError, UnpicklingError) as error:
        reason = str(error).splitlines()[0]
        raise GateSightError(f"the checkpoint '{checkpoint}' cannot be loaded ({reason}): train anew.") from error

"""Training of all estimators of all folds in one run, and their evaluation beside the baselines."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from lightning import LightningModule
from rich.progress import track
from torch.nn.functional import binary_cross_entropy_with_logits

from data_modules.recording import Batch, Document, RecordingDataModule, WholeDocuments
from gatesight.bank import EstimatorBank
from gatesight.comparison import Comparison
from gatesight.errors import GateSightError
from gatesight.estimator import Estimator
from gatesight.features import window_columns
from gatesight.folds import NONE
from gatesight.labels import LABELS
from gatesight.layout import HybridLayout
from gatesight.methods.best_cell import BestCell, find_best_cells
from gatesight.methods.ridge import Ridge
from gatesight.methods.window_mean import slow_heads
from models.predictors import AGE_MLP, BEST_CELL, OURS, PREDICTORS, RIDGE, check, native

DEFAULT = (OURS, AGE_MLP, "older_first", "newer_first", "slow_write")
HEADLINE = "test/overlap_at_10"
"""Logged key of the figure that sweeps maximise."""
CHUNK = 8192


class EstimatorModule(LightningModule):
    """Trains a bank of MLPs for every fold, and beside it one that sees only age (§4.1, Appendix G).

    The loss is the sum over MLPs of each one's mean binary cross-entropy over its own rows, those of documents outside
    its fold's corpus; gradients are clipped MLP by MLP. Nothing an MLP learns depends on the others, or on what its held-out corpus
    holds; but a step that draws from that corpus alone still moves the fold's MLPs, by AdamW's momentum and weight decay.
    Logs ``train/loss``, ``val/overlap_at_10`` and, after the test, ``test/<measure>`` and ``test/<predictor>/<measure>``.

    Args:
        layout: the model's layout, as a dict.
        corpora: names of the recording's corpora.
        folds: the folds to train, as :func:`gatesight.folds.plan_folds` gives them.
        provenance: the recording's provenance (model, revision, …).
        label: what is predicted, a key of ``gatesight.labels.LABELS``.
        window: GDN layers that an attention layer's estimators read.
        seed: seed of the initial parameters.
        hidden: hidden units of an MLP.
        lr: AdamW's learning rate at the start; it falls to 0 along a cosine (ours).
        weight_decay: AdamW's.
        clip: largest gradient norm of an MLP.
        slow_threshold: half-life in tokens from which a head is slow.
        predictors: what is measured beside each other, keys of ``models.predictors.PREDICTORS``.
    """

    counts: torch.Tensor
    """``[F, C]`` bool: corpora that count in a fold."""
    slow: torch.Tensor
    """``[F, G, V]`` bool: slow heads by the fold's training corpora."""
    slow_fallback: torch.Tensor
    """``[F]`` bool: no head of the fold reached the threshold."""
    gate: torch.Tensor
    """``[L]`` w_l of the last fold's training corpora: all of them, in the fold that is served."""
    best_cells: torch.Tensor
    """``[L, H]`` int64."""

    def __init__(
        self,
        layout: dict[str, Any],
        corpora: list[str],
        folds: list[str],
        provenance: dict[str, Any],
        label: str = "max",
        window: int = 6,
        seed: int = 0,
        hidden: int = 64,
        lr: float = 2e-3,
        weight_decay: float = 1e-2,
        clip: float = 1.0,
        slow_threshold: float = 1000.0,
        predictors: Sequence[str] = DEFAULT,
    ) -> None:
        super().__init__()
        check(predictors)
        self.save_hyperparameters()
        self.predictors = [name for name in PREDICTORS if name in predictors]
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
            "best_cells": torch.zeros(len(columns), heads, dtype=torch.int64),
        }.items():
            self.register_buffer(name, value)
        self.ridge = Ridge(columns, heads, self.counts) if RIDGE in predictors else None
        self.comparison = Comparison(self.predictors, corpora, self.layout.attention_layers)
        self.validation = Comparison([OURS], corpora, self.layout.attention_layers)
        self.results: dict[str, Any] = {}
        self.trained_elsewhere = False
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
        options = {"lr": self.hparams["lr"], "weight_decay": self.hparams["weight_decay"]}
        optimiser = torch.optim.AdamW(self.parameters(), **options, fused=True)
        # not trainer.estimated_stepping_batches: it would start reading ahead before a resumed run knows its epoch
        steps = (self.trainer.max_epochs or 1) * self.trainer.datamodule.batches  # type: ignore[attr-defined]
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: (1 + math.cos(math.pi * i / steps)) / 2)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def on_fit_start(self) -> None:
        self._fit_closed_forms(self.trainer.datamodule)  # type: ignore[attr-defined]
        self._started = time.perf_counter()

    @torch.no_grad()
    def _fit_closed_forms(self, data: RecordingDataModule) -> None:
        """Ridge and the best cells, each in one pass over the documents; every rank does it by itself, with one result."""

        def documents(of: WholeDocuments, doing: str) -> Iterator[Document]:
            for i in track(range(len(of)), doing, transient=True, disable=self.global_rank > 0):
                yield of[i].to(self.device)

        if self.ridge is not None:
            for document in documents(data.training_documents, "Ridge"):
                body = slice(document.prefix, None)
                label = LABELS[self.hparams["label"]](document.utility[..., body])
                self.ridge.add(document.signals[body], document.age()[body], label, document.corpus)
            self.ridge.solve()
        if BEST_CELL in self.predictors:
            bodies = (
                (document.signals[document.prefix :], document.utility[..., document.prefix :])
                for document in documents(data.test_set, "Best cells")
            )
            self.best_cells.copy_(find_best_cells(bodies))

    def on_fit_end(self) -> None:
        self.seconds = time.perf_counter() - self._started

    # --- evaluation: each document by the fold that never saw its corpus

    def fold_of(self, corpus: int) -> int:
        name = self.corpora[corpus]
        return self.folds.index(name if name in self.folds else NONE)

    def scores(self, document: Document, predictor: str) -> torch.Tensor:
        """``[L, H, n]`` scores of a predictor, in the fold that holds the document's corpus out."""
        fold, signals, age = self.fold_of(document.corpus), document.signals, document.age()

        def mlp(bank: EstimatorBank, inputs: torch.Tensor) -> torch.Tensor:
            chunks = zip(inputs.split(CHUNK), age.split(CHUNK), strict=True)
            return torch.cat([bank(x, a, fold)[0] for x, a in chunks], dim=-1).sigmoid()

        if predictor == OURS:
            return mlp(self.bank, signals)
        if predictor == AGE_MLP:
            return mlp(self.age_bank, signals[:, 0, 0, :0])
        if predictor == RIDGE and self.ridge is not None:
            return self.ridge(signals, age, fold)
        if predictor == BEST_CELL:
            return BestCell(self.best_cells).score(signals)
        return native(predictor, self.layout, self.hparams["window"], self.slow[fold]).score(signals)

    def _compare(self, document: Document, comparison: Comparison) -> None:
        body = slice(document.prefix, None)
        for method in comparison.methods:
            scores = self.scores(document, method)
            comparison.update(method, scores[..., body], document.utility[..., body], document.corpus)

    def validation_step(self, document: Document, batch_idx: int) -> None:
        self._compare(document, self.validation)

    def test_step(self, document: Document, batch_idx: int) -> None:
        self._compare(document, self.comparison)

    def on_validation_epoch_end(self) -> None:
        overall = self.validation.results()[OURS]["overall"]
        self.log_dict({f"val/{name}": value for name, value in overall.items()})

    def check_resumes(self, saved: EstimatorModule, checkpoint: str) -> None:
        """Raise :class:`GateSightError` if a checkpoint is of a run whose result would differ from this one's."""
        for name in ("layout", "provenance", "corpora", "folds", "label", "window", "hidden", "seed"):
            before, now = saved.hparams[name], self.hparams[name]
            if before != now:
                raise GateSightError(
                    f"'{checkpoint}' is of a run with another {name} ({_short(before)}, not {_short(now)}): resume with the same settings, or train anew."
                )

    def measure_on(self, data: RecordingDataModule) -> None:
        """Get ready to be measured, as trained, on another recording, which may hold further corpora.

        Raises:
            GateSightError: it is of another model.
        """
        if data.layout != self.layout:
            raise GateSightError(
                f"the recording '{data.recording.location}' is of a model of layout {data.layout.hash}, the estimators are of "
                f"{self.layout.hash}: measure them on a recording of their own model."
            )
        if not len(data.test_set):
            raise GateSightError(
                f"the recording '{data.recording.location}' holds no document of corpus {self.folds[0]}."
            )
        self.trained_elsewhere = True
        self.corpora = data.corpora
        self.comparison = Comparison(self.predictors, self.corpora, self.layout.attention_layers)

    def on_test_epoch_end(self) -> None:
        self.results = {
            "protocol": self._protocol(),
            "documents": self.comparison.documents(),
            "training_seconds": None if self.trained_elsewhere else round(self.seconds, 1),
            "notes": self._notes(),
            "methods": self.comparison.results(),
        }
        for method, found in self.results["methods"].items():
            prefix = "test" if method == OURS else f"test/{method}"
            self.log_dict({f"{prefix}/{name}": value for name, value in found["overall"].items()})

    def _protocol(self) -> str:
        """Whether the documents measured are of corpora that the estimators were trained on."""
        if self.folds != [NONE]:
            return "leave-one-corpus-out"
        trained = set(self.hparams["corpora"])
        seen = [corpus in trained for corpus in self.comparison.documents()]
        return "in-sample" if all(seen) else "partly in-sample" if any(seen) else "corpora not trained on"

    def _notes(self) -> list[str]:
        threshold = self.hparams["slow_threshold"]
        slow = f"slow heads: half-life of at least {threshold:g} tokens"
        if self.slow_fallback.any():
            slow = f"slow heads: the slowest 13%, since no head reaches a half-life of {threshold:g} tokens"
        where = (
            "in the recording trained on" if self.trained_elsewhere else "on the documents it is measured on: a ceiling"
        )
        best = f"* the best GDN head for each KV head, chosen {where}"
        return [slow, best] if BEST_CELL in self.predictors else [slow]

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


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


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

"""Writes each recorded document as soon as it is there."""

from __future__ import annotations

import signal
from typing import Any

from lightning import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter

from gatesight.recording.plan import RecordingPlan
from gatesight.recording.store import RecordedDocument


class RecordingWriter(BasePredictionWriter):
    """Hands every prediction to the plan, which stores it atomically."""

    def __init__(self, plan: RecordingPlan) -> None:
        super().__init__("batch")
        self.plan = plan

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Let SIGTERM end the process at once: Lightning only notes it, for loops of training to see; nothing is lost here."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def write_on_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, prediction: tuple[int, RecordedDocument], *_: Any
    ) -> None:
        self.plan.write(*prediction)
        if trainer.is_global_zero:
            self.plan.merge()

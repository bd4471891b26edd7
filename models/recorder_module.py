"""The recorder as a LightningModule, so that ``Trainer.predict`` spreads documents over devices and nodes."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from lightning import LightningModule
from transformers import AutoModelForCausalLM, AutoTokenizer

from gatesight.recording.plan import RecordingPlan
from gatesight.recording.recorder import DocumentRecorder
from gatesight.recording.store import RecordedDocument


class RecorderModule(LightningModule):
    """Loads the model where it runs and records documents by their index in the plan.

    Args:
        plan: the documents.
        path: model folder or hub id.
        revision: of the hub id.
        dtype: ``auto``, ``float32`` or ``bfloat16``.
        device_map: for models larger than one device (``auto``); else Lightning places the model.
        recorder: settings of :class:`gatesight.recording.recorder.DocumentRecorder`.
    """

    def __init__(
        self,
        plan: RecordingPlan,
        path: str,
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str | None = None,
        recorder: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.plan, self.settings = plan, recorder or {}
        self.source = {"path": path, "revision": revision, "dtype": dtype, "device_map": device_map}
        self.recorder: DocumentRecorder | None = None

    def setup(self, stage: str) -> None:
        if self.trainer.strategy.root_device.type == "cpu":
            # One thread a process: sums then run in the same order, whatever the number of processes.
            torch.set_num_threads(1)
        transformers.logging.set_verbosity_error()  # it advises CUDA kernels that CPUs do not have
        transformers.logging.disable_progress_bar()
        path, revision = self.source["path"], self.source["revision"]
        options = {k: self.source[k] for k in ("dtype", "device_map")}
        model = AutoModelForCausalLM.from_pretrained(path, revision=revision, **options).eval()
        tokenizer = AutoTokenizer.from_pretrained(path, revision=revision)
        if self.source["device_map"] is None:
            model.to(self.trainer.strategy.root_device)
        self.recorder = DocumentRecorder(model, tokenizer, **self.settings)

    def predict_step(self, index: int) -> tuple[int, RecordedDocument]:
        assert self.recorder is not None
        return index, self.recorder.record(self.plan.documents[index])

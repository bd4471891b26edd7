"""Documents on their way to the recorder."""

from __future__ import annotations

from lightning import LightningDataModule
from torch.utils.data import DataLoader

from gatesight.recording.plan import RecordingPlan


class TextDataModule(LightningDataModule):
    """Gives every rank the indices of its documents that are not recorded yet, one by one."""

    def __init__(self, plan: RecordingPlan) -> None:
        super().__init__()
        self.allow_zero_length_dataloader_with_multiple_devices = True  # a rank may have nothing left to do
        self.plan = plan

    def predict_dataloader(self) -> DataLoader:
        assert self.trainer is not None
        return DataLoader(self.plan.pending(self.trainer.global_rank, self.trainer.world_size), batch_size=None)  # type: ignore[arg-type]

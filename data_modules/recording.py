"""A recording as training data: 500 drawn entries of each document an epoch, all entries of a document in evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightning import LightningDataModule
from rich.progress import track
from torch.utils.data import DataLoader, Dataset, Sampler

from gatesight.errors import GateSightError
from gatesight.features import age_features
from gatesight.folds import LOCO, NONE, plan_folds
from gatesight.labels import LABELS
from gatesight.layout import HybridLayout
from gatesight.recording.store import Recording
from gatesight.statistics import RecordingStatistics, corpora_of, recording_statistics


class Batch(NamedTuple):
    """Drawn entries of some documents."""

    signals: torch.Tensor
    """``[rows, G, V, 3]`` float32."""
    age: torch.Tensor
    """``[rows, 3]`` float32."""
    label: torch.Tensor
    """``[L, H, rows]`` float32, of the document's entries behind its prefix."""
    corpus: torch.Tensor
    """``[rows]`` int64."""


class Document(NamedTuple):
    """All entries of a document, prefix included."""

    signals: torch.Tensor
    """``[n, G, V, 3]`` float32."""
    utility: torch.Tensor
    """``[L, H, n]`` float32, raw U."""
    prefix: int
    corpus: int

    def age(self) -> torch.Tensor:
        """``[n, 3]`` age features."""
        n = len(self.signals)
        return age_features(torch.arange(n, device=self.signals.device), n)

    def to(self, device: torch.device) -> Document:
        return self._replace(signals=self.signals.to(device), utility=self.utility.to(device))


class RecordingDataModule(LightningDataModule):
    """Opens a recording and serves it to training and evaluation.

    What is drawn depends on (seed, epoch, document id) and on nothing else: not on workers, ranks, resuming or order.

    Args:
        recording: folder or fsspec URL of a recording, or one that is open.
        model: name of the model, for messages.
        model_path: the model itself; where it is a folder, its layout must be the recording's.
        fold: ``loco``, ``none`` or the corpus to hold out.
        seed: seed of the draws.
        positions: entries drawn from a document an epoch.
        label: what is to be predicted, a key of :data:`gatesight.labels.LABELS`.
        batch_size: documents of an optimiser step, over all ranks together.
        num_workers: processes that read ahead.
        resident: hold the training documents in the memory of the device (16 bits a signal, 32 a label) instead of reading them every epoch.
        known: names of corpora that trained estimators know, in their order; the recording's others follow.

    Raises:
        GateSightError: there is no intact recording, it is of another model, there is no such fold, or a document has
            no entry behind its prefix.
    """

    def __init__(
        self,
        recording: str | Recording,
        model: str = "tiny",
        model_path: str | None = None,
        fold: str = LOCO,
        seed: int = 0,
        positions: int = 500,
        label: str = "max",
        batch_size: int = 1,
        num_workers: int = 0,
        resident: bool = False,
        known: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.allow_zero_length_dataloader_with_multiple_devices = True  # there may be fewer documents than ranks
        if label not in LABELS:
            raise GateSightError(f"no label is called {label}: choose {', '.join(LABELS)}.")
        self.recording = _open(recording, model, model_path) if isinstance(recording, str) else recording
        self.seed, self.positions, self.batch_size, self.num_workers = seed, positions, batch_size, num_workers
        self.corpora = list(dict.fromkeys([*known, *corpora_of(self.recording)]))
        self.folds = plan_folds(fold, self.corpora)
        corpus = [self.corpora.index(name) for name in self.recording.corpora]
        trained = [i for i, c in enumerate(corpus) if any(self.corpora[c] != held_out for held_out in self.folds)]
        tested = [i for i, c in enumerate(corpus) if NONE in self.folds or self.corpora[c] in self.folds]
        self.train_set = DrawnDocuments(self.recording, corpus, trained, seed, positions, label)
        self.training_documents = WholeDocuments(self.recording, corpus, trained)
        self.resident = resident
        self.test_set = WholeDocuments(self.recording, corpus, tested)

    @property
    def layout(self) -> HybridLayout:
        return self.recording.layout

    @property
    def description(self) -> dict[str, Any]:
        """What the estimators must know of the recording, in plain Python."""
        return {
            "layout": self.layout.to_dict(),
            "corpora": self.corpora,
            "folds": self.folds,
            "label": self.train_set.label,
            "provenance": self.recording.manifest.provenance,
        }

    @property
    def batches(self) -> int:
        """Optimiser steps of an epoch."""
        return -(-len(self.train_set) // self.batch_size)

    @cached_property
    def statistics(self) -> RecordingStatistics:
        """Gathered in one pass over the recording when first asked for, or read from the cache beside it."""
        return recording_statistics(self.recording, self.num_workers)

    def prepare_data(self) -> None:
        _ = self.statistics  # by one process, which fills the cache for the others

    def train_dataloader(self) -> DataLoader:
        # Lightning reads ahead before it tells the sampler its epoch: a resumed run must start at the right one.
        epoch = self.trainer.fit_loop.epoch_progress.current.processed if self.trainer else 0  # type: ignore[attr-defined]
        rank, world = self._rank()
        if self.batch_size < world:
            raise GateSightError(
                f"data.batch_size={self.batch_size} documents a step cannot be shared by {world} processes: give at least data.batch_size={world}."
            )
        sampler = EpochBatches(len(self.train_set), self.batch_size, self.seed, epoch, rank, world)
        if self.resident:  # the rows are drawn on the device, by this process
            device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
            resident = ResidentDocuments(self.train_set, device, self.num_workers)
            return DataLoader(resident, batch_size=None, sampler=sampler)
        return DataLoader(self.train_set, batch_size=None, sampler=sampler, num_workers=self.num_workers)

    def val_dataloader(self) -> DataLoader:
        rank, world = self._rank()
        own = range(rank, len(self.test_set), world)  # each document once, whatever the number of ranks
        return DataLoader(self.test_set, batch_size=None, sampler=own, num_workers=self.num_workers)

    def _rank(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def test_dataloader(self) -> DataLoader:
        return self.val_dataloader()


class DrawnDocuments(Dataset[Batch]):
    """Batches by key ``(epoch, documents)``: the entries that the epoch draws from these documents."""

    device = torch.device("cpu")

    def __init__(
        self, recording: Recording, corpus: list[int], members: list[int], seed: int, positions: int, label: str
    ) -> None:
        self.recording, self.corpus, self.members = recording, corpus, members
        self.seed, self.positions, self.label = seed, positions, label

    def __len__(self) -> int:
        return len(self.members)

    def entries(self, index: int, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Signals ``[rows, G, V, 3]`` and labels ``[L, H, rows]`` of some positions of document ``index``, float32."""
        columns, prefix = self.recording.read(index, ["signals", "utility"]), self.recording.prefixes[index]
        label = LABELS[self.label](_by_head(columns["utility"][prefix:]))
        return torch.from_numpy(columns["signals"][rows].astype(np.float32)), label[..., rows - prefix]

    def __getitem__(self, key: tuple[int, tuple[int, ...]]) -> Batch:
        epoch, documents = key
        layout, recording = self.recording.layout, self.recording
        signals = [torch.empty(0, len(layout.gdn_layers), layout.value_heads, 3, device=self.device)]
        age = [torch.empty(0, 3)]
        label = [torch.empty(len(layout.attention_layers), layout.kv_heads, 0, device=self.device)]
        corpus = [torch.empty(0, dtype=torch.int64)]
        for index in (self.members[d] for d in documents):
            n, prefix = recording.lengths[index], recording.prefixes[index]
            rows = draw(self.seed, epoch, recording.doc_ids[index], prefix, n, self.positions)
            for values, new in zip((signals, label), self.entries(index, rows), strict=True):
                values.append(new)
            age.append(age_features(torch.from_numpy(rows), n))
            corpus.append(torch.full((len(rows),), self.corpus[index]))
        return Batch(torch.cat(signals), torch.cat(age), torch.cat(label, dim=-1), torch.cat(corpus))


class ResidentDocuments(DrawnDocuments):
    """The same batches from tensors that hold all documents; they are read once, with a progress bar."""

    def __init__(self, drawn: DrawnDocuments, device: torch.device, workers: int = 0) -> None:
        recording, members = drawn.recording, drawn.members
        super().__init__(recording, drawn.corpus, members, drawn.seed, drawn.positions, drawn.label)
        self.device, layout = device, recording.layout
        ends = np.cumsum([recording.lengths[index] for index in members]).tolist()
        self.starts = {index: end - recording.lengths[index] for index, end in zip(members, ends, strict=True)}
        shape = (len(layout.gdn_layers), layout.value_heads, 3)
        self.signals = torch.empty(ends[-1], *shape, dtype=torch.float16, device=device)
        self.labels = torch.empty(len(layout.attention_layers), layout.kv_heads, ends[-1], device=device)
        whole = DataLoader(WholeDocuments(recording, drawn.corpus, members), batch_size=None, num_workers=workers)
        for start, end, document in zip(
            self.starts.values(), ends, track(whole, "Loading", len(members), transient=True), strict=True
        ):
            signals, utility, prefix, _ = document.to(device)
            self.signals[start:end] = signals
            self.labels[..., start + prefix : end] = LABELS[self.label](utility[..., prefix:])

    def entries(self, index: int, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.from_numpy(rows + self.starts[index]).to(self.device)
        return self.signals[places].float(), self.labels[..., places]


def _by_head(utility: np.ndarray) -> torch.Tensor:
    """``[n, L, H]`` as recorded, as ``[L, H, n]``."""
    return torch.from_numpy(utility.copy()).permute(1, 2, 0).contiguous()


class WholeDocuments(Dataset[Document]):
    """Documents with all their entries."""

    def __init__(self, recording: Recording, corpus: list[int], members: list[int]) -> None:
        self.recording, self.corpus, self.members = recording, corpus, members

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, key: int) -> Document:
        index = self.members[key]
        columns = self.recording.read(index, ["signals", "utility"])
        return Document(
            torch.from_numpy(columns["signals"].astype(np.float32)),
            _by_head(columns["utility"]),
            self.recording.prefixes[index],
            self.corpus[index],
        )


class EpochBatches(Sampler[tuple[int, tuple[int, ...]]]):
    """Keys of an epoch's batches: all documents in an order drawn from (seed, epoch), cut into global batches.

    Every rank takes its share of every batch, maybe none of the last one, so that all ranks take the same steps.
    """

    def __init__(
        self, documents: int, batch_size: int, seed: int, epoch: int = 0, rank: int = 0, world: int = 1
    ) -> None:
        self.documents, self.batch_size, self.seed = documents, batch_size, seed
        self.epoch, self.rank, self.world = epoch, rank, world

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of every epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.documents // self.batch_size)

    def __iter__(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        order = np.argsort(_random(f"{self.seed}/{self.epoch}").random_raw(self.documents), kind="stable")
        for start in range(0, self.documents, self.batch_size):
            batch = order[start : start + self.batch_size]
            yield self.epoch, tuple(batch[self.rank :: self.world].tolist())


def draw(seed: int, epoch: int, doc_id: str, prefix: int, n: int, count: int) -> np.ndarray:
    """Up to ``count`` distinct positions in ``[prefix, n)``, ascending, int64; the same everywhere and for ever."""
    keys = _random(f"{seed}/{epoch}/{doc_id}").random_raw(n - prefix)
    return np.sort(np.argsort(keys, kind="stable")[:count]) + prefix


def _random(key: str) -> np.random.Philox:
    """A counter-based generator, whose raw stream is fixed by definition, keyed by a hash."""
    return np.random.Philox(key=int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little"))


def _open(location: str, model: str, model_path: str | None) -> Recording:
    try:
        recording = Recording(location)
    except GateSightError as error:
        if not str(error).startswith("no recording"):
            raise
        raise GateSightError(
            f"no recording of model '{model}' at '{location}': make one with `python record.py model={model}`."
        ) from None
    if not len(recording):
        raise GateSightError(f"the recording at '{location}' holds no document: run the record command again.")
    if (
        model_path
        and Path(model_path).is_dir()
        and (layout := HybridLayout.from_config(model_path)) != recording.layout
    ):
        raise GateSightError(
            f"the recording at '{location}' is of another model: its layout is {recording.layout.hash}, that of '{model_path}' is "
            f"{layout.hash}; give the right model or the right model.recording."
        )
    for doc_id, n, prefix in zip(recording.doc_ids, recording.lengths, recording.prefixes, strict=True):
        if n <= prefix:
            raise GateSightError(
                f"document '{doc_id}' in '{location}' has {n} tokens, all of them in its prefix of {prefix}: nothing is left to train on; "
                "record it anew with longer documents."
            )
    return recording

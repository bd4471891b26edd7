"""What is known of a recording before training: input moments per corpus, half-lives and gates, gathered in one pass."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch
from rich.progress import track
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch.utils.data import DataLoader, Dataset

from gatesight.errors import GateSightError
from gatesight.features import AGE_FEATURES, age_features
from gatesight.files import atomic_path
from gatesight.layout import HybridLayout
from gatesight.recording.store import Recording

CACHE = "statistics.safetensors"
CHUNK = 4096
"""Tokens held in float64 at a time."""
QUIET = 200
"""Recordings of fewer documents are read too soon for a progress bar."""


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations of the inputs (signals, flattened, then age), in float64."""

    count: int
    mean: torch.Tensor
    m2: torch.Tensor

    @classmethod
    def of(cls, values: torch.Tensor) -> Moments:
        """Moments of ``[rows, inputs]`` values."""
        mean = values.mean(0)
        return cls(len(values), mean, (values - mean).square_().sum(0))

    def __add__(self, other: Moments) -> Moments:
        """Moments of the union (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        delta, share = other.mean - self.mean, other.count / max(count, 1)
        return Moments(count, self.mean + delta * share, self.m2 + other.m2 + delta.square() * (self.count * share))

    def standardisation(self) -> tuple[torch.Tensor, torch.Tensor]:
        """float32 shift and scale: ``(x - shift) * scale`` has mean 0 and standard deviation 1.

        A constant input keeps scale 1, also where rounding left it a deviation that float32 could not tell from none.
        """
        std = (self.m2 / max(self.count, 1)).sqrt()
        std = torch.where(std > self.mean.abs() * torch.finfo(torch.float32).eps, std, torch.ones_like(std))
        return self.mean.float(), (1 / std).float()


@dataclass(frozen=True)
class RecordingStatistics:
    """Sufficient statistics of a recording; ``C`` corpora in order of first appearance, ``N`` documents."""

    count: torch.Tensor
    """``[C]`` int64 tokens behind the prefixes."""
    mean: torch.Tensor
    """``[C, G·V·3 + 3]`` float64."""
    m2: torch.Tensor
    decay: torch.Tensor
    """``[N, G, V]`` float32 mean log-decay ḡ of each document."""
    gate: torch.Tensor
    """``[N, L, Q]`` float32 mean output gate of each document."""
    corpus: torch.Tensor
    """``[N]`` int64 corpus of each document."""

    def moments(self, corpora: Sequence[int]) -> Moments:
        """Joint moments of some corpora; the others are not touched."""
        empty = Moments(0, torch.zeros_like(self.mean[0]), torch.zeros_like(self.m2[0]))
        return sum((Moments(int(self.count[c]), self.mean[c], self.m2[c]) for c in corpora), empty)

    def half_life(self, corpora: Sequence[int]) -> torch.Tensor:
        """``[G, V]`` half-life ln 0.5 / ḡ in tokens, the median over the documents of some corpora (§3.1)."""
        return (math.log(0.5) / self.decay[self._in(corpora)].clamp(max=-1e-12)).median(0).values

    def gate_weights(self, corpora: Sequence[int], layout: HybridLayout) -> torch.Tensor:
        """``[L]`` w_l (§4.2): per KV head the largest mean gate of its query heads, then the mean over the heads."""
        gate = self.gate[self._in(corpora)].double().mean(0)
        return gate.unflatten(1, (layout.kv_heads, layout.group)).amax(-1).mean(-1).float()

    def _in(self, corpora: Sequence[int]) -> torch.Tensor:
        return torch.isin(self.corpus, torch.tensor(list(corpora)))


def corpora_of(recording: Recording) -> list[str]:
    """Names of the corpora, in order of first appearance."""
    return list(dict.fromkeys(recording.corpora))


def recording_statistics(recording: Recording, workers: int = 0) -> RecordingStatistics:
    """Statistics of a recording, from the cache beside it when it is there; a folder that cannot be written has none.

    Args:
        workers: processes that read; the result does not depend on their number.

    Raises:
        GateSightError: signals or utilities are not finite, or a shard is corrupt.
    """
    cache = Path(recording.location) / CACHE
    key = hashlib.sha256(f"1/{recording.fingerprint}".encode()).hexdigest()
    cached = _load(cache, key)
    if cached is None:
        cached = _gather(recording, workers)
        if cache.parent.is_dir():  # not for remote recordings
            _save(cached, cache, key)
    return cached


def _gather(recording: Recording, workers: int) -> RecordingStatistics:
    names = corpora_of(recording)
    corpus = [names.index(name) for name in recording.corpora]
    inputs = len(recording.layout.gdn_layers) * recording.layout.value_heads * 3 + len(AGE_FEATURES)
    zeros = torch.zeros(inputs, dtype=torch.float64)
    moments = [Moments(0, zeros, zeros) for _ in names]
    decay, gate = [], []
    documents = DataLoader(_DocumentStatistics(recording), batch_size=None, num_workers=workers)
    quiet = len(recording) < QUIET
    for i, (found, mean_decay, gate_query) in enumerate(
        track(documents, "Statistics", total=len(recording), transient=True, disable=quiet)
    ):
        moments[corpus[i]] += Moments(*found)
        decay.append(mean_decay)
        gate.append(gate_query)
    return RecordingStatistics(
        count=torch.tensor([m.count for m in moments]),
        mean=torch.stack([m.mean for m in moments]),
        m2=torch.stack([m.m2 for m in moments]),
        decay=torch.stack(decay),
        gate=torch.stack(gate),
        corpus=torch.tensor(corpus),
    )


class _DocumentStatistics(Dataset[tuple[tuple[int, torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]]):
    """Moments, mean decays and gates of each document."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def __len__(self) -> int:
        return len(self.recording)

    def __getitem__(self, i: int) -> tuple[tuple[int, torch.Tensor, torch.Tensor], torch.Tensor, torch.Tensor]:
        recording = self.recording
        row = recording.read(i, ["signals", "utility", "mean_decay", "gate_query"])
        signals, utility, mean_decay, gate_query = (torch.from_numpy(row[name].copy()) for name in row)
        document = _document_moments(signals, recording.prefixes[i])
        if not (document.m2.isfinite().all() and utility.isfinite().all()):
            column = "utility" if document.m2.isfinite().all() else "signals"
            raise GateSightError(
                f"document '{recording.doc_ids[i]}' in '{recording.location}/{recording.shard_of(i)}' holds NaN or infinite {column}: "
                "delete that shard and run the record command again; it makes just that shard."
            )
        return (document.count, document.mean, document.m2), mean_decay, gate_query


def _document_moments(signals: torch.Tensor, prefix: int) -> Moments:
    n = len(signals)
    age = age_features(torch.arange(n), n)
    chunks = (
        Moments.of(torch.cat([signals[i : i + CHUNK].flatten(1).double(), age[i : i + CHUNK].double()], dim=1))
        for i in range(prefix, n, CHUNK)
    )
    return sum(chunks, next(chunks))


def _load(cache: Path, key: str) -> RecordingStatistics | None:
    try:
        tensors = load_file(cache)
    except (OSError, SafetensorError):
        return None
    stored = bytes(tensors.pop("key", torch.empty(0, dtype=torch.uint8)).tolist()).decode()
    if stored != key or set(tensors) != {field.name for field in fields(RecordingStatistics)}:
        return None
    return RecordingStatistics(**tensors)


def _save(statistics: RecordingStatistics, cache: Path, key: str) -> None:
    tensors = {field.name: getattr(statistics, field.name) for field in fields(statistics)}
    tensors["key"] = torch.tensor(list(key.encode()), dtype=torch.uint8)
    try:
        with atomic_path(cache) as temporary:
            save_file(tensors, temporary)
    except (GateSightError, SafetensorError):
        return  # a read-only recording is fine: its statistics are gathered anew by each run

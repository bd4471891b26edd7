"""Recordings with planted structure, of any shape and size: made as they are read, or written like real ones.

In every window a few heads foretell an entry's utility, age helps a little, and the rest is noise. Which heads those are is known, so that
what an estimator should find is known too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gatesight.layout import HybridLayout
from gatesight.recording.store import (
    SHARD_DOCUMENTS,
    Manifest,
    RecordedDocument,
    Recording,
    dimensions,
    shard_name,
    write_rows,
)
from gatesight.tiny.corpora import NAMES

WINDOW = 6
"""GDN layers before an attention layer among which its planted heads are."""
PLANTED = 3
"""Heads that foretell the utility of one attention layer and KV head."""
CONTINUATIONS, CONTINUATION_TOKENS = 2, 4


def regular_layout(groups: int, value_heads: int, kv_heads: int) -> HybridLayout:
    """Three GDN layers before each of ``groups`` attention layers, as in the Qwen3.5 family; GDN head dims are 64."""
    attention = tuple(range(3, 4 * groups, 4))
    return HybridLayout(
        model_type="qwen3_5_text",
        gdn_layers=tuple(i for i in range(4 * groups) if i not in attention),
        attention_layers=attention,
        hidden_size=192,
        value_heads=value_heads,
        key_heads=value_heads // 3,
        value_dim=64,
        key_dim=64,
        query_heads=3 * kv_heads,
        kv_heads=kv_heads,
        head_dim=64,
    )


def planted_cells(layout: HybridLayout) -> np.ndarray:
    """The heads that foretell utility, int64 ``[L, H, 3, 2]``: GDN layer and value head; the same in every document."""
    random = np.random.default_rng(7)
    cells = [
        [
            [(random.choice(window), random.integers(layout.value_heads)) for _ in range(PLANTED)]
            for _ in range(layout.kv_heads)
        ]
        for window in layout.windows(WINDOW)
    ]
    return np.array(cells)


class SimulatedRecording(Recording):
    """Reads like any recording; a document is a function of the seed and its name, made anew whenever it is read.

    Args:
        groups, value_heads, kv_heads: see :func:`regular_layout`.
        documents: of each corpus.
        tokens: least and greatest length of a document.
        corpora: names of the corpora.
        seed: seed of all documents.
        prefix: tokens of each document's prefix.
        scale: factors of ‖v‖ by corpus, to make one corpus differ while the others stay the same.
    """

    def __init__(
        self,
        groups: int = 16,
        value_heads: int = 48,
        kv_heads: int = 4,
        documents: int = 270,
        tokens: Sequence[int] = (750, 1250),
        corpora: Sequence[str] = NAMES,
        seed: int = 0,
        prefix: int = 2,
        scale: Mapping[str, float] | None = None,
    ) -> None:
        layout = regular_layout(groups, value_heads, kv_heads)
        provenance = {"model": "simulated", "revision": "0", "seed": seed}
        self.manifest = Manifest(layout, dimensions(layout, CONTINUATIONS, CONTINUATION_TOKENS), provenance)
        self.location = "simulated"
        self._seed, self._scale, self._cells = seed, dict(scale or {}), planted_cells(layout)
        self._keys = [(seed, c, d) for c in range(len(corpora)) for d in range(documents)]
        self.doc_ids = [f"{corpora[c]}/{d:05d}" for _, c, d in self._keys]
        self.corpora = [corpora[c] for _, c, _ in self._keys]
        low, high = tokens
        self.lengths = [int(np.random.default_rng(key).integers(low, high, endpoint=True)) for key in self._keys]
        self.prefixes = [prefix] * len(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @property
    def fingerprint(self) -> str:
        return repr((self.layout.hash, self._keys, self.lengths, self._scale))

    def shard_of(self, index: int) -> str:
        return f"document {index}"

    def read(self, index: int, columns: Sequence[str]) -> dict[str, Any]:
        document = self._document(index)
        return {name: getattr(document, name) for name in columns}

    def write(self, folder: Path, packed: bool = False) -> Path:
        """Write all documents as an ordinary recording."""
        manifest = Manifest(self.layout, self.manifest.sizes, self.manifest.provenance, packed)
        shards = -(-len(self) // SHARD_DOCUMENTS)
        for shard in range(shards):
            members = range(shard * SHARD_DOCUMENTS, min(len(self), (shard + 1) * SHARD_DOCUMENTS))
            rows = [manifest.to_row(self._document(index)) for index in members]
            write_rows(folder / shard_name(shard, shards), rows, packed)
        return folder

    def _document(self, index: int) -> RecordedDocument:
        layout, sizes, n = self.layout, self.manifest.sizes, self.lengths[index]
        random = np.random.default_rng([*self._keys[index], n])
        latent = random.standard_normal((n, sizes["G"], sizes["V"], 3), dtype=np.float32)
        signals = self._signals(latent, self._scale.get(self.corpora[index], 1.0))
        return RecordedDocument(
            doc_id=self.doc_ids[index],
            corpus=self.corpora[index],
            prefix=self.prefixes[index],
            input_ids=random.integers(0, 100, n).astype(np.int32),
            signals=signals,
            utility=self._utility(latent, random),
            mean_decay=signals[..., 1].mean(0, dtype=np.float32),
            gate_query=random.uniform(0, 0.5, (len(layout.attention_layers), layout.query_heads)).astype(np.float32),
            gate_kv=random.uniform(0, 0.5, (len(layout.attention_layers), layout.kv_heads)).astype(np.float32),
            continuations=np.zeros((sizes["M"], sizes["T"]), np.int32),
            continuation_lengths=np.full(sizes["M"], sizes["T"], np.int32),
            reconstruction_error=np.zeros(len(layout.attention_layers), np.float32),
        )

    @staticmethod
    def _signals(latent: np.ndarray, scale: float) -> np.ndarray:
        """β, g and ‖v‖ that vary with the latents; half-lives go from a token to a thousand over the heads."""
        decay = np.linspace(0, 7, latent[0, ..., 0].size, dtype=np.float32).reshape(latent.shape[1:3])
        signals = np.empty(latent.shape, np.float16)
        signals[..., 0] = 1 / (1 + np.exp(-latent[..., 0]))
        signals[..., 1] = -np.exp(0.5 * latent[..., 1] - decay)
        signals[..., 2] = scale * (2 + 0.5 * latent[..., 2]).clip(0.1)
        return signals

    def _utility(self, latent: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """``[n, L, H]``: log-normal, 0.8 times what the planted heads say, plus noise, and older entries matter a little more."""
        n, (layers, heads) = len(latent), self._cells.shape[:2]
        layer, head = self._cells[..., 0], self._cells[..., 1]  # [L, H, 3]
        signal = (latent[:, layer, head, 2] + 0.7 * latent[:, layer, head, 0]).sum(-1)
        noise = random.standard_normal((n, layers, heads), dtype=np.float32)
        return np.exp(0.8 * signal + 0.7 * noise + np.linspace(0.5, 0, n, dtype=np.float32)[:, None, None])

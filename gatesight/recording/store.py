"""The Parquet store of a recording: one row a document, one row group a row, up to 32 documents a shard.

A recording is a folder of ``shard-00000-of-00012.parquet`` files, local or remote (any fsspec URL). Every shard carries the
layout, the shapes and dtypes of its columns and the provenance in its schema metadata, so that each can be read alone and
shards of two recordings never mix unnoticed. Arrays are little-endian, C order, token-major.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from gatesight.errors import GateSightError
from gatesight.files import atomic_path
from gatesight.layout import HybridLayout

FORMAT = 1
SHARD_DOCUMENTS = 32
METADATA_KEY = b"gatesight"

ARRAYS: dict[str, tuple[str, str]] = {
    "input_ids": ("<i4", "n"),
    "signals": ("<f2", "n G V 3"),
    "utility": ("<f4", "n L H"),
    "mean_decay": ("<f4", "G V"),
    "gate_query": ("<f4", "L Q"),
    "gate_kv": ("<f4", "L H"),
    "continuations": ("<i4", "M T"),
    "continuation_lengths": ("<i4", "M"),
    "reconstruction_error": ("<f4", "L"),
}
"""dtype and shape of every array column; ``n`` is the document's length, the other letters are fixed for a recording."""


@dataclass(frozen=True)
class RecordedDocument:
    """What is kept of one document."""

    doc_id: str
    corpus: str
    prefix: int
    """Leading tokens (a chat prefix) that are left out of normalisation, training and measures."""
    input_ids: np.ndarray
    signals: np.ndarray
    """``[n, G, V, 3]`` float16: write gate β in (0, 1), log-decay g ≤ 0 in nats a token, ‖v‖."""
    utility: np.ndarray
    """``[n, L, H]`` float32, raw U of Eq. 2."""
    mean_decay: np.ndarray
    """``[G, V]`` float32, ḡ over the document (float16 underflows for slow heads)."""
    gate_query: np.ndarray
    """``[L, Q]`` float32: mean output gate over tokens and channels, per query head."""
    gate_kv: np.ndarray
    """``[L, H]`` float32: mean over tokens of the largest channel-mean gate in each KV head's group."""
    continuations: np.ndarray
    """``[M, T]`` int32 sampled token ids; row m is valid up to ``continuation_lengths[m]``."""
    continuation_lengths: np.ndarray
    reconstruction_error: np.ndarray
    """``[L]`` float32: relative L2 error of the attention output rebuilt from the recorded attention."""

    def __len__(self) -> int:
        return len(self.input_ids)


def dimensions(layout: HybridLayout, continuations: int, continuation_tokens: int) -> dict[str, int]:
    """The sizes behind the letters of :data:`ARRAYS`, all but ``n``."""
    return {
        "G": len(layout.gdn_layers),
        "V": layout.value_heads,
        "L": len(layout.attention_layers),
        "H": layout.kv_heads,
        "Q": layout.query_heads,
        "M": continuations,
        "T": continuation_tokens,
    }


@dataclass(frozen=True)
class Manifest:
    """What every shard of a recording states in its schema metadata, equal in all of them."""

    layout: HybridLayout
    sizes: dict[str, int]
    provenance: dict[str, Any]
    """Model id and revision, corpora, seed, rollout settings and library versions: all that fixes the recorded values."""
    packed: bool = False
    """For sharing: signals keep the 8 significant bits of the bfloat16 that models compute in, and all arrays are split into
    byte planes and compressed with zstd; about a third smaller, slower to read."""

    def to_json(self) -> str:
        values = {
            "format": FORMAT,
            "layout": self.layout.to_dict(),
            "layout_hash": self.layout.hash,
            "sizes": self.sizes,
            "arrays": {name: {"dtype": dtype, "shape": shape.split()} for name, (dtype, shape) in ARRAYS.items()},
            "packed": self.packed,
            "provenance": self.provenance,
        }
        return json.dumps(values, indent=1, sort_keys=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Manifest:
        values = json.loads(text)
        if values.get("format") != FORMAT:
            raise GateSightError(
                f"the recording has format {values.get('format')}; this version reads format {FORMAT}."
            )
        return cls(HybridLayout.from_dict(values["layout"]), values["sizes"], values["provenance"], values["packed"])

    def schema(self) -> pa.Schema:
        columns = [("doc_id", pa.string()), ("corpus", pa.string()), ("n", pa.int32()), ("prefix", pa.int32())]
        columns += [(name, pa.large_binary()) for name in ARRAYS]
        return pa.schema(columns, metadata={METADATA_KEY: self.to_json().encode()})

    def document_bytes(self, tokens: int) -> int:
        """Bytes of one document of ``tokens`` tokens before packing, for the disk estimate."""
        return sum(
            np.dtype(dtype).itemsize * int(np.prod(self._shape(name, tokens), dtype=np.int64))
            for name, (dtype, _) in ARRAYS.items()
        )

    def _shape(self, name: str, n: int) -> tuple[int, ...]:
        sizes = {**self.sizes, "n": n, "3": 3}
        return tuple(sizes[letter] for letter in ARRAYS[name][1].split())

    def to_row(self, document: RecordedDocument) -> pa.Table:
        """One document as a table of one row; refuses wrong shapes and values that are not finite."""
        row: dict[str, list[Any]] = {
            "doc_id": [document.doc_id],
            "corpus": [document.corpus],
            "n": [len(document)],
            "prefix": [document.prefix],
        }
        for name, (dtype, _) in ARRAYS.items():
            array = np.ascontiguousarray(getattr(document, name), dtype=dtype)
            expected = self._shape(name, len(document))
            if array.shape != expected:
                raise GateSightError(
                    f"document '{document.doc_id}': {name} has shape {array.shape}, the layout asks for {expected}."
                )
            if not np.isfinite(array).all():
                raise GateSightError(
                    f"document '{document.doc_id}': {name} holds NaN or infinite values; it was not recorded."
                )
            row[name] = [
                _pack(_bfloat16_digits(array) if name == "signals" else array) if self.packed else array.tobytes()
            ]
        return pa.table(row, schema=self.schema())

    def array(self, name: str, content: memoryview, n: int) -> np.ndarray:
        """The array behind one binary cell: a view without a copy, unless the recording is packed."""
        dtype, shape = np.dtype(ARRAYS[name][0]), self._shape(name, n)
        if len(content) != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
            raise GateSightError(
                f"{name} holds {len(content)} bytes where {shape} of {dtype} was expected: the shard is corrupt."
            )
        if self.packed:
            return np.frombuffer(content, np.uint8).reshape(dtype.itemsize, -1).T.copy().view(dtype).reshape(shape)
        return np.frombuffer(content, dtype).reshape(shape)


def _pack(array: np.ndarray) -> bytes:
    """Byte planes: all first bytes, then all second bytes, …; sign and exponent bytes then compress well together."""
    return array.reshape(-1, 1).view(np.uint8).T.tobytes()


def _bfloat16_digits(array: np.ndarray) -> np.ndarray:
    """float16 rounded to 8 significant bits: the three lowest of its mantissa become 0. The largest such value is 65,280."""
    return ((array.clip(-65280, 65280).view(np.uint16) + np.uint16(4)) & np.uint16(0xFFF8)).view(np.float16)


def write_rows(path: Path, rows: Sequence[pa.Table], packed: bool) -> None:
    """Write tables of one row each as one Parquet file, a row group a row, atomically."""
    with atomic_path(path) as temporary:
        options: dict[str, Any] = (
            {"compression": "zstd", "compression_level": 19} if packed else {"compression": "none"}
        )
        with pq.ParquetWriter(
            temporary, rows[0].schema, use_dictionary=False, write_statistics=False, write_page_checksum=True, **options
        ) as writer:
            for row in rows:
                writer.write_table(row)


def shard_name(shard: int, shards: int) -> str:
    return f"shard-{shard:05d}-of-{shards:05d}.parquet"


OPEN_FILES = 128
"""Shards held open at a time."""


class Recording(Sequence[RecordedDocument]):
    """A finished recording, opened for reading; documents are read one by one, when asked for.

    Args:
        location: folder or fsspec URL (``hf://datasets/owner/name``, ``s3://…``) that holds the shards.

    Raises:
        GateSightError: nothing is there, shards are missing or unreadable, or the folder mixes several recordings.
    """

    def __init__(self, location: str | Path) -> None:
        self.location = str(location)
        self._fs, self._root = fsspec.url_to_fs(self.location)
        self._files: dict[str, pq.ParquetFile] = {}
        self._shards = self._find_shards()
        self.manifest = self._common_manifest()
        self.doc_ids: list[str] = []
        self.corpora: list[str] = []
        self.lengths: list[int] = []
        self.prefixes: list[int] = []
        self._rows: list[tuple[str, int]] = []
        for shard in self._shards:
            try:
                index = self._open(shard).read(columns=["doc_id", "corpus", "n", "prefix"]).to_pydict()
            except (OSError, pa.ArrowException) as error:
                raise self._corrupt(shard, error) from error
            self._rows += [(shard, row) for row in range(len(index["n"]))]
            self.doc_ids += index["doc_id"]
            self.corpora += index["corpus"]
            self.lengths += index["n"]
            self.prefixes += index["prefix"]

    @property
    def layout(self) -> HybridLayout:
        return self.manifest.layout

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return RecordedDocument(**self.read(index, [field.name for field in fields(RecordedDocument)]))

    def __iter__(self) -> Iterator[RecordedDocument]:
        return (self[i] for i in range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}  # open files do not cross process borders

    def read(self, index: int, columns: Sequence[str]) -> dict[str, Any]:
        """Some fields of document ``index``, by their names in :class:`RecordedDocument`.

        Raises:
            GateSightError: the shard is corrupt.
        """
        shard, row = self._rows[index]
        scalars: dict[str, list[Any]] = {"doc_id": self.doc_ids, "corpus": self.corpora, "prefix": self.prefixes}
        arrays = [name for name in columns if name in ARRAYS]
        try:
            table = self._open(shard).read_row_group(row, columns=arrays, use_threads=False)
            cells = {name: memoryview(table[name][0].as_buffer()) for name in arrays}
            values = {name: self.manifest.array(name, cell, self.lengths[index]) for name, cell in cells.items()}
        except (OSError, pa.ArrowException, GateSightError) as error:
            raise self._corrupt(shard, error) from error
        return {name: scalars[name][index] if name in scalars else values[name] for name in columns}

    @property
    def fingerprint(self) -> str:
        """Changes whenever a shard is written anew; what was computed from the recording can be cached under it."""
        return repr([self._fs.ukey(f"{self._root}/{shard}") for shard in self._shards])

    def shard_of(self, index: int) -> str:
        """Name of the shard that holds document ``index``."""
        return self._rows[index][0]

    def _find_shards(self) -> list[str]:
        found: dict[str, re.Match[str]] = {}
        if self._fs.isdir(self._root):
            names = sorted(str(path).rsplit("/", 1)[-1] for path in self._fs.ls(self._root, detail=False))
            found = {
                name: match for name in names if (match := re.fullmatch(r"shard-(\d{5})-of-(\d{5})\.parquet", name))
            }
        if not found:
            raise GateSightError(
                f"no recording at '{self.location}': no shard-*.parquet there; python record.py makes one."
            )
        totals = {int(match[2]) for match in found.values()}
        if len(totals) > 1:
            raise GateSightError(
                f"'{self.location}' mixes shards of several recordings ({', '.join(found)}): keep one recording a folder."
            )
        if len(found) < (total := totals.pop()):
            raise GateSightError(
                f"the recording at '{self.location}' is incomplete ({len(found)} of {total} shards): run the record command again, it resumes."
            )
        return list(found)

    def _common_manifest(self) -> Manifest:
        texts = {shard: self._metadata(shard) for shard in self._shards}
        first = texts[self._shards[0]]
        for shard, text in texts.items():
            if text != first:
                a, b = (json.loads(t)["provenance"].get("model", "unknown") for t in (first, text))
                raise GateSightError(
                    f"'{self.location}' mixes several recordings: {self._shards[0]} (model {a}) and {shard} (model {b}) differ in their provenance."
                )
        return Manifest.from_json(first)

    def _metadata(self, shard: str) -> bytes:
        try:
            return (self._open(shard).schema_arrow.metadata or {})[METADATA_KEY]
        except KeyError:
            raise GateSightError(
                f"'{self.location}/{shard}' is a Parquet file but no GateSight recording: its schema metadata is missing."
            ) from None
        except (OSError, pa.ArrowException) as error:
            raise self._corrupt(shard, error) from error

    def _open(self, shard: str) -> pq.ParquetFile:
        if shard not in self._files:
            if len(self._files) == OPEN_FILES:
                self._files.pop(next(iter(self._files))).close()
            path = f"{self._root}/{shard}"
            local = isinstance(self._fs, LocalFileSystem)
            source: str | io.IOBase = path if local else self._fs.open(path)
            self._files[shard] = pq.ParquetFile(source, memory_map=local, page_checksum_verification=True)
        return self._files[shard]

    def _corrupt(self, shard: str, error: Exception) -> GateSightError:
        reason = str(error).splitlines()[0]
        if isinstance(error, OSError) and error.errno:  # the system's own: permissions, too many open files, network
            return GateSightError(f"'{self.location}/{shard}' cannot be read ({reason}).")
        return GateSightError(
            f"'{self.location}/{shard}' is corrupt ({reason}): delete it and run the record command again; it makes just that shard."
        )

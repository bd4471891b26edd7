"""Which documents of a recording are done and which are not, kept on disk so that a killed run goes on where it was."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gatesight.errors import GateSightError
from gatesight.files import atomic_write
from gatesight.recording.corpora import TextDocument
from gatesight.recording.store import SHARD_DOCUMENTS, Manifest, RecordedDocument, shard_name, write_rows

MANIFEST = "recording.json"
PARTS = "parts"


class RecordingPlan:
    """The documents of a recording, in order, cut into shards of 32.

    Every finished document is at once a file of its own, a part; parts that complete a shard become the shard. Ranks
    need not talk: each writes parts of its own, one of them merges, and what is written depends on the documents alone.

    Args:
        folder: where the recording is made.
        manifest: what the recording states of itself.
        documents: all documents, in order.
    """

    def __init__(self, folder: str | Path, manifest: Manifest, documents: Sequence[TextDocument]) -> None:
        self.folder, self.manifest, self.documents = Path(folder), manifest, list(documents)
        self.shards = -(-len(self.documents) // SHARD_DOCUMENTS)

    def begin(self) -> None:
        """Claim the folder, or find it claimed by this very recording. Called once, before any rank starts.

        Raises:
            GateSightError: the folder holds another recording or cannot be written.
        """
        path, text = self.folder / MANIFEST, self.manifest.to_json() + "\n"
        if path.is_file():
            if (found := path.read_text(encoding="utf-8")) != text:
                raise GateSightError(
                    f"'{self.folder}' holds another recording ({_difference(found, text)}): choose another folder or delete it."
                )
        elif any(self.folder.glob("shard-*.parquet")):
            raise GateSightError(
                f"'{self.folder}' holds shards without a {MANIFEST}: choose another folder or delete them."
            )
        for abandoned in self.folder.rglob(".*.tmp"):  # by a run that was killed
            abandoned.unlink(missing_ok=True)
        atomic_write(path, text)

    def pending(self, rank: int = 0, world: int = 1) -> list[int]:
        """Documents that ``rank`` of ``world`` still has to record, in order."""
        mine = range(rank, len(self.documents), world)
        return [i for i in mine if not self._shard(i // SHARD_DOCUMENTS).exists() and not self._part(i).exists()]

    def estimate(self, lengths: Sequence[int]) -> str:
        """How much is left to do, and the disk space that the whole takes, from the documents' lengths in tokens."""
        size = sum(self.manifest.document_bytes(n) for n in lengths) / 2**20
        left = len(self.pending())
        return (
            f"{left} of {len(self.documents)} documents left to record; the whole takes {size:,.1f} MiB on disk"
            + " before packing" * self.manifest.packed
        )

    def write(self, index: int, document: RecordedDocument) -> None:
        """Store document ``index`` as a part.

        Raises:
            GateSightError: the document has a wrong shape or values that are not finite, or the disk is full.
        """
        write_rows(self._part(index), [self.manifest.to_row(document)], self.manifest.packed)

    def merge(self) -> None:
        """Make shards of the parts that complete them; only one process may do so at a time."""
        for shard in range(self.shards):
            first = shard * SHARD_DOCUMENTS
            parts = [self._part(i) for i in range(first, min(first + SHARD_DOCUMENTS, len(self.documents)))]
            if not self._shard(shard).exists():
                if not all(part.exists() for part in parts):
                    continue
                write_rows(self._shard(shard), [self._read(part) for part in parts], self.manifest.packed)
            for part in parts:
                part.unlink(missing_ok=True)

    def finish(self) -> None:
        """Merge the last shards and tidy up; called once, after all ranks.

        Raises:
            GateSightError: documents are missing.
        """
        self.merge()
        if missing := self.pending():
            raise GateSightError(
                f"{len(missing)} of {len(self.documents)} documents are not recorded: run the same command again."
            )
        if (self.folder / PARTS).is_dir():
            (self.folder / PARTS).rmdir()

    def _part(self, index: int) -> Path:
        shard, row = divmod(index, SHARD_DOCUMENTS)
        return self.folder / PARTS / f"{shard:05d}-{row:02d}.parquet"

    def _shard(self, shard: int) -> Path:
        return self.folder / shard_name(shard, self.shards)

    def _read(self, part: Path) -> pa.Table:
        try:
            return pq.read_table(part, schema=self.manifest.schema(), page_checksum_verification=True)
        except (OSError, pa.ArrowException) as error:
            reason = str(error).splitlines()[0]
            raise GateSightError(
                f"'{part}' is corrupt ({reason}): delete it and run the same command again."
            ) from error


def digest(documents: Sequence[TextDocument]) -> str:
    """16 hex digits of what is recorded: ids, corpora and texts, in order."""
    total = hashlib.sha256()
    for document in documents:
        total.update(json.dumps([document.doc_id, document.corpus, document.text]).encode())
    return total.hexdigest()[:16]


def _difference(found: str, wanted: str) -> str:
    """The first line in which two manifests differ."""
    for a, b in zip(found.splitlines(), wanted.splitlines(), strict=False):
        if a != b:
            return re.sub(r"[\s,]+$", "", f"it has {a.strip()} where this one has {b.strip()}".replace(",", ""))
    return "its manifest is cut short"

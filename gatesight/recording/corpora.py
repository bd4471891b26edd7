"""Documents to record: the embedded corpora, a folder of yours, or a dataset of the hub; filtered, and counted as they are.

:func:`embedded`, :func:`folder` and :func:`hub` give documents by corpus, in a fixed order; :func:`choose` keeps those that fit.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gatesight.errors import GateSightError
from gatesight.recording.benchmarks import named_benchmark
from gatesight.tiny import CORPORA
from gatesight.tiny.corpora import NAMES


@dataclass(frozen=True)
class TextDocument:
    """A document of a corpus; ``doc_id`` is unique in a recording."""

    doc_id: str
    corpus: str
    text: str


Corpora = Mapping[str, Iterable[TextDocument]]
"""Documents by corpus, in a fixed order, read only as far as they are needed."""


def embedded(join: int = 1) -> Corpora:
    """The nine corpora that ship with the package, made to mirror the paper's nine subsets.

    Args:
        join: documents put one after the other to make a longer one.

    Raises:
        GateSightError: one of them is not there.
    """
    paths = {name: CORPORA / f"{name}.parquet" for name in NAMES}
    if missing := [path for path in paths.values() if not path.is_file()]:
        raise GateSightError(
            f"'{missing[0]}' is missing: install gatesight again, or build it as docs/corpora.md says."
        )
    if join < 1:
        raise GateSightError(f"corpora.join={join}: at least 1 document makes a document.")
    return {name: _joined(_read_embedded(name, path), join) for name, path in paths.items()}


def folder(path: str, text_column: str = "text", corpus: str | None = None) -> Corpora:
    """Files of a folder: ``.txt`` is a document, ``.jsonl`` and ``.parquet`` hold a document a row.

    Args:
        text_column: column (or key) of the text.
        corpus: name of the one corpus that all files belong to. Without it a sub-folder is a corpus; of the files at the top
            each ``.jsonl`` and ``.parquet`` is one, and all ``.txt`` together.

    Raises:
        GateSightError: there is no such folder, no such file in it, or (when it is read) a file that cannot be read.
    """
    root = Path(path)
    if not root.is_dir():
        raise GateSightError(f"corpora.path='{path}' is no folder: give one with .txt, .jsonl or .parquet files.")
    files: dict[str, list[Path]] = {}
    for file in sorted(root.rglob("*")):
        inside = file.relative_to(root).parts
        if file.suffix in _READERS and file.is_file() and not any(part.startswith(".") for part in inside):
            at_top = root.resolve().name if file.suffix == ".txt" else file.stem
            files.setdefault(corpus or (inside[0] if len(inside) > 1 else at_top), []).append(file)
    if not files:
        raise GateSightError(f"'{path}' holds no .txt, .jsonl or .parquet file.")
    return {name: _read_files(name, paths, root, text_column) for name, paths in files.items()}


def hub(
    path: str,
    subsets: Mapping[str, str] | Sequence[str] | None = None,
    split: str = "train",
    text_column: str = "text",
    revision: str | None = None,
) -> Corpora:
    """A dataset of the hub, or whatever else ``datasets`` loads by a path, streamed: no more is downloaded than is looked at.

    Args:
        subsets: the dataset's configurations, each a corpus; or configurations by name of the corpus. Without it the whole
            dataset is one corpus, named like it.
        revision: commit, tag or branch of the dataset.

    Raises:
        GateSightError: (when it is read) the hub or the dataset cannot be reached, or it has no such column.
    """
    if subsets is None:
        named: dict[str, str | None] = {Path(path).name: None}
    else:
        named = dict(subsets.items() if isinstance(subsets, Mapping) else zip(subsets, subsets, strict=True))
    return {corpus: _stream(corpus, path, name, split, text_column, revision) for corpus, name in named.items()}


@dataclass
class Choice:
    """The chosen documents and what became of the others, by corpus and reason."""

    documents: list[TextDocument] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    """Tokens of each document."""
    kept: Counter[str] = field(default_factory=Counter)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)

    def report(self) -> str:
        """One line a corpus: how many documents are kept, how many are left out and why."""
        lines = []
        for corpus, count in self.kept.items():
            reasons = self.reasons(corpus)
            lines.append(f"{corpus}: {count} documents" + (f" (left out: {reasons})" if reasons else ""))
        return "\n".join(lines)

    def reasons(self, corpus: str) -> str:
        """Why documents of ``corpus`` are left out, each reason with its number of documents."""
        return ", ".join(f"{count} {reason}" for (name, reason), count in self.dropped.items() if name == corpus)


def choose(
    corpora: Corpora,
    count_tokens: Callable[[str], int],
    min_tokens: int = 750,
    max_tokens: int = 1250,
    limit: int | None = None,
) -> Choice:
    """Keep the first ``limit`` documents of each corpus that are of the right length, new, and name no benchmark.

    Args:
        corpora: read no further than needed.
        count_tokens: length of a text for the model that is to be recorded.
        limit: documents a corpus; all if not given.

    Raises:
        GateSightError: a corpus has no document left.
    """
    choice, seen = Choice(), set[bytes]()
    for corpus, documents in corpora.items():
        for document in documents:
            if choice.kept[corpus] == limit:
                break
            if reason := _reason_against(document.text, seen):
                choice.dropped[corpus, reason] += 1
            elif (n := count_tokens(document.text)) < min_tokens:
                choice.dropped[corpus, f"under {min_tokens} tokens"] += 1
            elif n > max_tokens:
                choice.dropped[corpus, f"over {max_tokens} tokens"] += 1
            else:
                choice.kept[corpus] += 1
                choice.documents.append(document)
                choice.lengths.append(n)
        if not choice.kept[corpus]:
            raise GateSightError(
                f"corpus '{corpus}' has no document to record ({choice.reasons(corpus) or 'it is empty'}): "
                "change corpora, min_tokens or max_tokens."
            )
    return choice


def _reason_against(text: str, seen: set[bytes]) -> str | None:
    """Why ``text`` is left out, whatever its length; otherwise it joins the digests of those ``seen``."""
    if not text.strip():
        return "empty"
    if named_benchmark(text):
        return "naming a benchmark"
    if (digest := hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()) in seen:
        return "duplicates"
    seen.add(digest)
    return None


def _read_embedded(name: str, path: Path) -> Iterator[TextDocument]:
    try:
        rows = pq.read_table(path, columns=["doc_id", "text"]).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise GateSightError(f"'{path}' cannot be read ({_first_line(error)}): install gatesight again.") from error
    for row in rows:
        yield TextDocument(row["doc_id"], name, row["text"])


def _joined(documents: Iterator[TextDocument], count: int) -> Iterator[TextDocument]:
    """Each ``count`` neighbours as one document, named by the first; what is left over at the end is dropped."""
    while len(part := list(islice(documents, count))) == count:
        yield replace(part[0], text="\n\n".join(document.text for document in part))


def _read_files(corpus: str, files: Sequence[Path], root: Path, column: str) -> Iterator[TextDocument]:
    for file in files:
        name = file.relative_to(root).as_posix()
        try:
            for row, text in enumerate(_READERS[file.suffix](file, column)):
                yield TextDocument(name if file.suffix == ".txt" else f"{name}/{row:05d}", corpus, _as_text(text, row))
        except KeyError:
            raise GateSightError(f"'{file}' has no column '{column}': name it with corpora.text_column=….") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, pa.ArrowException, TypeError) as error:
            raise GateSightError(f"'{file}' cannot be read ({_first_line(error)}).") from error


def _stream(
    corpus: str, path: str, subset: str | None, split: str, column: str, revision: str | None
) -> Iterator[TextDocument]:
    from datasets import load_dataset

    try:
        rows = load_dataset(path, subset, split=split, revision=revision, streaming=True)
        for row, values in enumerate(rows):
            yield TextDocument(f"{corpus}/{row:07d}", corpus, _as_text(values[column], row))
    except KeyError:
        raise GateSightError(
            f"dataset '{path}' has no column '{column}': name it with corpora.text_column=…."
        ) from None
    except (OSError, ValueError, TypeError) as error:
        where = f"dataset '{path}'{f', subset {subset},' if subset else ''}"
        raise GateSightError(
            f"{where} cannot be read ({_first_line(error)}): check corpora.path and the network."
        ) from error


def _as_text(value: Any, row: int) -> str:
    """A row's text; a missing one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"row {row} holds no text")
    return value


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _text_file(path: Path, _: str) -> Iterator[str]:
    yield path.read_text(encoding="utf-8-sig")


def _json_lines(path: Path, column: str) -> Iterator[Any]:
    with path.open(encoding="utf-8-sig") as lines:
        for line in lines:
            if line.strip():
                values = json.loads(line)
                if not isinstance(values, dict):
                    raise TypeError(f"line {line.strip()[:20]!r} is no JSON object")
                yield values[column]


def _parquet(path: Path, column: str) -> Iterator[Any]:
    file = pq.ParquetFile(path)
    if column not in file.schema_arrow.names:
        raise KeyError(column)
    for batch in file.iter_batches(columns=[column], batch_size=256):
        yield from batch[column].to_pylist()


_READERS: dict[str, Callable[[Path, str], Iterator[Any]]] = {
    ".txt": _text_file,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}

"""Documents to record: the embedded corpora, a folder of yours, or a dataset of the hub; filtered, and counted as they are.

Every source gives documents by corpus, in a fixed order; :func:`choose` keeps those that fit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from gatesight.errors import GateSightError
from gatesight.tiny import CORPORA

BENCHMARKS = re.compile(
    r"\b(RULER|NIAH|MRCR|HELMET|NoLiMa|LooGLE|L-Eval|BABILong|RepoQA|SCBench|ZeroSCROLLS|LV-Eval|LongBench(-?v2)?|LongGenBench"
    r"|InfiniteBench|InfinityBench|LongMemEval|Loong)\b|∞-?Bench|(?i:\bneedles?[- ]in[- ](a|the)[- ]haystack\b)"
)
"""Names of long-context benchmarks: documents with one of them are left out, as in §8 of the paper's data description."""


@dataclass(frozen=True)
class TextDocument:
    """A document of a corpus; ``doc_id`` is unique in a recording."""

    doc_id: str
    corpus: str
    text: str


Corpora = dict[str, Iterable[TextDocument]]
"""Documents by corpus, in a fixed order, read only as far as they are needed."""


def embedded() -> Corpora:
    """The nine corpora that ship with the package, made to mirror the paper's nine subsets."""
    if not (paths := sorted(CORPORA.glob("*.parquet"))):
        raise GateSightError(
            f"no embedded corpora at '{CORPORA}': build them with `python -m gatesight.tiny.corpora.build`."
        )
    return {path.stem: _read_embedded(path) for path in paths}


def folder(path: str, text_column: str = "text") -> Corpora:
    """Files of a folder: ``.txt`` is a document, ``.jsonl`` and ``.parquet`` hold a document a row.

    A sub-folder is a corpus; of the files at the top each ``.jsonl`` and ``.parquet`` is one, and all ``.txt`` together.

    Raises:
        GateSightError: there is no such folder, no such file in it, or (when it is read) a file that cannot be read.
    """
    root = Path(path)
    if not root.is_dir():
        raise GateSightError(f"corpora.path='{path}' is no folder: give one with .txt, .jsonl or .parquet files.")
    files: dict[str, list[Path]] = {}
    for file in sorted(file for file in root.rglob("*") if file.suffix in _READERS):
        inside = file.relative_to(root).parts
        corpus = inside[0] if len(inside) > 1 else root.name if file.suffix == ".txt" else file.stem
        files.setdefault(corpus, []).append(file)
    if not files:
        raise GateSightError(f"'{path}' holds no .txt, .jsonl or .parquet file.")
    return {corpus: _read_files(corpus, paths, root, text_column) for corpus, paths in files.items()}


def hub(path: str, subsets: list[str] | None = None, split: str = "train", text_column: str = "text") -> Corpora:
    """A dataset of the hub, streamed: each subset is a corpus, and no more is downloaded than is looked at.

    Raises:
        GateSightError: (when it is read) the hub or the dataset cannot be reached, or it has no such column.
    """
    return {subset or path: _stream(path, subset, split, text_column) for subset in subsets or [""]}


def _read_files(corpus: str, files: list[Path], root: Path, column: str) -> Iterator[TextDocument]:
    for file in files:
        name = file.relative_to(root).as_posix()
        try:
            for row, text in enumerate(_READERS[file.suffix](file, column)):
                if not isinstance(text, str):
                    raise TypeError(f"row {row} holds no text")
                yield TextDocument(name if file.suffix == ".txt" else f"{name}/{row:05d}", corpus, text)
        except KeyError:
            raise GateSightError(f"'{file}' has no column '{column}': name it with corpora.text_column=….") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError, pa.ArrowException, TypeError) as error:
            raise GateSightError(f"'{file}' cannot be read ({str(error).splitlines()[0]}).") from error


def _stream(path: str, subset: str, split: str, column: str) -> Iterator[TextDocument]:
    from datasets import load_dataset

    try:
        for row, values in enumerate(load_dataset(path, subset or None, split=split, streaming=True)):
            yield TextDocument(f"{subset or path}/{row:07d}", subset or path, values[column])
    except KeyError:
        raise GateSightError(
            f"dataset '{path}' has no column '{column}': name it with corpora.text_column=…."
        ) from None
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise GateSightError(
            f"dataset '{path}'{f', subset {subset},' if subset else ''} cannot be read: {reason}"
        ) from error


@dataclass
class Choice:
    """The chosen documents and what became of the others, by corpus and reason."""

    documents: list[TextDocument]
    lengths: list[int]
    """Tokens of each document."""
    kept: Counter[str]
    dropped: Counter[tuple[str, str]]

    def report(self) -> str:
        """One line a corpus."""
        lines = []
        for corpus, count in self.kept.items():
            reasons = [f"{n} {reason}" for (name, reason), n in self.dropped.items() if name == corpus]
            lines.append(f"{corpus}: {count} documents" + (f" (left out: {', '.join(reasons)})" if reasons else ""))
        return "\n".join(lines)


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
    choice = Choice([], [], Counter(), Counter())
    seen: set[str] = set()
    for corpus, documents in corpora.items():
        for document in documents:
            if choice.kept[corpus] == limit:
                break
            n = count_tokens(document.text)
            if reason := _reason_against(document.text, n, seen, min_tokens, max_tokens):
                choice.dropped[corpus, reason] += 1
                continue
            choice.kept[corpus] += 1
            choice.documents.append(document)
            choice.lengths.append(n)
        if not choice.kept[corpus]:
            reasons = ", ".join(f"{n} {reason}" for (name, reason), n in choice.dropped.items() if name == corpus)
            raise GateSightError(
                f"corpus '{corpus}' has no document to record ({reasons or 'it is empty'}): change corpora, min_tokens or max_tokens."
            )
    return choice


def _reason_against(text: str, n: int, seen: set[str], min_tokens: int, max_tokens: int) -> str | None:
    digest = hashlib.sha256(text.encode()).hexdigest()
    if not text.strip():
        return "empty"
    if digest in seen:
        return "duplicates"
    seen.add(digest)
    if BENCHMARKS.search(text):
        return "naming a benchmark"
    return f"under {min_tokens} tokens" if n < min_tokens else f"over {max_tokens} tokens" if n > max_tokens else None


def _read_embedded(path: Path) -> Iterator[TextDocument]:
    for row in pq.read_table(path, columns=["doc_id", "text"]).to_pylist():
        yield TextDocument(row["doc_id"], path.stem, row["text"])


def _text_file(path: Path, _: str) -> Iterator[str]:
    yield path.read_text(encoding="utf-8")


def _json_lines(path: Path, column: str) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)[column]


def _parquet(path: Path, column: str) -> Iterator[str]:
    file = pq.ParquetFile(path)
    if column not in file.schema_arrow.names:
        raise KeyError(column)
    for batch in file.iter_batches(columns=[column], batch_size=256):
        yield from batch[column].to_pylist()


_READERS: dict[str, Callable[[Path, str], Iterator[str]]] = {
    ".txt": _text_file,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}

"""Write the table and the samples of ``docs/corpora.md`` from the corpora: ``python -m gatesight.tiny.corpora.table docs/corpora.md``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from tokenizers import Tokenizer

from gatesight.errors import GateSightError
from gatesight.files import atomic_write
from gatesight.tiny import CORPORA, MODEL
from gatesight.tiny.corpora import NAMES

SAMPLE_LINES, SAMPLE_WIDTH = 3, 150


def table() -> str:
    """A row a corpus: documents, tokens, bytes of text and of the file, licences; and a row of sums."""
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    lines = ["| corpus | documents | tokens | text, KB | file, KB | licences |", "|---|--:|--:|--:|--:|---|"]
    sums = [0, 0, 0, 0]
    for name in NAMES:
        rows, size = _rows(name), (CORPORA / f"{name}.parquet").stat().st_size
        texts: list[str] = [row["text"] for row in rows]
        counts = [len(rows), sum(map(len, tokenizer.encode_batch(texts))), sum(len(t.encode()) for t in texts), size]
        sums = [a + b for a, b in zip(sums, counts, strict=True)]
        lines.append(_line(f"`{name}`", counts, ", ".join(sorted({row["license"] for row in rows}))))
    return "\n".join([*lines, _line("all", sums, "")])


def samples() -> str:
    """The last lines of a document of each corpus: what a model has read when it begins to write on."""
    return "\n\n".join(f"`{name}`\n\n```text\n{_tail(_rows(name)[1]['text'])}\n```" for name in NAMES)


def _rows(name: str) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = pq.read_table(CORPORA / f"{name}.parquet").to_pylist()
    return rows


def _line(name: str, counts: Iterable[int], licenses: str) -> str:
    documents, tokens, text, file = counts
    return f"| {name} | {documents:,} | {tokens:,} | {text / 1000:,.0f} | {file / 1000:,.0f} | {licenses} |"


def _tail(text: str) -> str:
    lines = [line for line in text.split("\n") if line.strip()][-SAMPLE_LINES:]
    return "\n".join(
        line if len(line) <= SAMPLE_WIDTH else f"… {line[-SAMPLE_WIDTH:].split(' ', 1)[-1]}" for line in lines
    )


def fill(page: str) -> str:
    """``page`` with what stands between ``<!-- table -->`` and the next ``<!-- end -->``, and likewise ``samples``, written anew.

    Raises:
        GateSightError: it has no such place.
    """
    for name, content in (("table", table()), ("samples", samples())):
        before, start, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise GateSightError(
                f"the page has no '<!-- {name} -->' on a line of its own with '<!-- end -->' after it."
            )
        page = f"{before}{start}{content}\n{end}{after}"
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the table and the samples of the page on corpora anew.")
    parser.add_argument("page", type=Path)
    page = parser.parse_args().page
    atomic_write(page, fill(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()

"""Build the nine corpora from Debian packages: ``python -m gatesight.tiny.corpora.build --sources DIR``.

On Debian 12 the folder is made by::

    mkdir DIR && cd DIR
    apt-get download r-cran-janeaustenr dict-jargon wordnet-base libpython3.11-stdlib \\
        postgresql-15 postgresql-client-15 postgresql-doc-15
    for package in *.deb; do dpkg -x "$package" .; done

The same packages (their versions stand in ``docs/corpora.md``) and the same pyarrow give the same bytes.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from tokenizers import Tokenizer

from gatesight.files import atomic_path
from gatesight.recording.benchmarks import named_benchmark
from gatesight.tiny import CORPORA, MODEL
from gatesight.tiny.corpora import NAMES, chats, generators, mathematics, problems, programs, sources
from gatesight.tiny.corpora.draft import Draft, choose_length, words
from gatesight.tiny.corpora.languages import LANGUAGES

DOCUMENTS = 128
"""Documents of each corpus."""

Maker = Callable[[random.Random], Draft]


def prose(root: Path) -> Maker:
    """Novels, a technical manual and a dictionary, each from a random place on."""
    novels, manual = sources.austen(root), sources.manual(root)
    pages = {name: text for name, text in manual.items() if len(text) > 4500}
    jargon = sources.jargon(root)

    def make(rng: random.Random) -> Draft:
        kind = rng.random()
        if kind < 0.5:
            title = rng.choice(list(novels))
            text = _from(rng, novels[title])
            return Draft(words(text), f"Jane Austen, {title} (r-cran-janeaustenr)", sources.PUBLIC_DOMAIN)
        if kind < 0.8:
            name = rng.choice(list(pages))
            return Draft(
                words(pages[name]), f"PostgreSQL 15 documentation, {name} (postgresql-doc-15)", sources.POSTGRESQL
            )
        return Draft(words(_from(rng, jargon)), "The Jargon File 4.4.7 (dict-jargon)", sources.PUBLIC_DOMAIN)

    return make


def _from(rng: random.Random, paragraphs: list[str]) -> str:
    start = rng.randrange(len(paragraphs) - 60)
    return "\n\n".join(paragraphs[start : start + 60])[:9000]


def makers(root: Path) -> dict[str, Maker]:
    """What writes each corpus."""
    glosses, novels, modules = sources.wordnet(root), sources.austen(root), sources.modules(root)
    catalogues = {code: sources.catalogue(root, code) for code in LANGUAGES}
    library = {name: programs.functions(text) for name, text in modules.items()}
    return {
        "prose": prose(root),
        "synthetic_prose": generators.synthetic_prose,
        "diverse_qa": lambda rng: generators.diverse_qa(rng, glosses, novels),
        "translated_qa": lambda rng: generators.translated_qa(rng, catalogues),
        "math_text": mathematics.math_text,
        "code": lambda rng: programs.code(rng, modules),
        "code_instruction": lambda rng: programs.code_instruction(rng, library),
        "general_instruction": lambda rng: chats.general_instruction(rng, glosses),
        "math_instruction": problems.math_instruction,
    }


def documents(name: str, maker: Maker, tokenizer: Tokenizer, count: int) -> Iterator[dict[str, str]]:
    """``count`` documents of a corpus, all different; drafts that are too short or not fit to ship are passed over."""
    seen: set[str] = set()
    attempt = 0
    while len(seen) < count:
        rng = random.Random(f"{name}/{attempt}")
        attempt += 1
        draft = maker(rng)
        text = draft.cut(tokenizer, choose_length(rng))
        if text is None or text[:400] in seen or named_benchmark(text):
            continue
        yield {"doc_id": f"{name}/{len(seen):05d}", "text": text, "source": draft.source, "license": draft.license}
        seen.add(text[:400])


def build(root: Path, out: Path, count: int = DOCUMENTS) -> None:
    """Write ``<name>.parquet`` for every corpus into ``out``.

    Raises:
        GateSightError: a package is missing in ``root``, or ``out`` cannot be written.
    """
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    made = makers(root)
    for name in NAMES:
        rows = list(documents(name, made[name], tokenizer, count))
        schema = pa.schema([(column, pa.string()) for column in ("doc_id", "text", "source", "license")])
        with atomic_path(out / f"{name}.parquet") as path:
            pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd", compression_level=19)
        Console(stderr=True).print(f"{name}: {len(rows)} documents, {(out / f'{name}.parquet').stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the nine embedded corpora from unpacked Debian packages.")
    parser.add_argument("--sources", type=Path, default=Path("sources"), metavar="DIR", help="where they were unpacked")
    parser.add_argument("--out", type=Path, default=CORPORA, metavar="DIR", help="where to write")
    args = parser.parse_args()
    build(args.sources, args.out)


if __name__ == "__main__":
    main()

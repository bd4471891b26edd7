"""Prepares the training text from Debian packages: ``python -m gatesight.tiny.prepare LIBRARY --sources DIR``.

The packages are those of the embedded corpora (see :mod:`gatesight.tiny.corpora.build`), read by the same readers, and the generated text is
written by the same makers from other seeds. What the embedded documents are cut from is left out, so that training never sees it.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from gatesight.errors import GateSightError
from gatesight.tiny.architecture import Architecture
from gatesight.tiny.corpora import chats, generators, programs, sources
from gatesight.tiny.corpora.build import DOCUMENTS, makers
from gatesight.tiny.corpora.draft import Draft
from gatesight.tiny.corpora.languages import LANGUAGES
from gatesight.tiny.text import Facts, Library, prepare, train_tokenizer

GENERATED = 1_500
"""Documents written by each maker."""

SPARED = 6_000
"""Characters of each embedded document's draft that are left out: more than it is cut to."""

LINE = 40
"""Characters from which a line counts as that document's own."""


@dataclass(frozen=True)
class Material:
    """What the packages hold, less what the embedded corpora use."""

    novels: dict[str, list[str]]
    jargon: list[str]
    manual: dict[str, str]
    modules: dict[str, str]
    glosses: list[sources.Gloss]
    catalogues: dict[str, list[tuple[str, str]]]


def embedded(root: Path) -> str:
    """The text that the embedded documents are cut from."""
    drafts = []
    for name, maker in makers(root).items():
        for attempt in range(DOCUMENTS + DOCUMENTS // 8):
            drafts.append("".join(maker(random.Random(f"{name}/{attempt}")).parts)[:SPARED])
    return "\n".join(drafts)


def material(root: Path, spared: str) -> Material:
    """The packages' text without what stands in ``spared``."""
    lines = {line.strip() for line in spared.split("\n") if len(line) >= LINE}

    def own(block: str) -> bool:
        return not any(line.strip() in lines for line in block.split("\n"))

    def blocks(text: str) -> str:
        return "\n\n".join(block for block in text.split("\n\n") if own(block))

    return Material(
        {title: [p for p in paragraphs if own(p)] for title, paragraphs in sources.austen(root).items()},
        [entry for entry in sources.jargon(root) if own(entry)],
        {name: blocks(text) for name, text in sources.manual(root).items()},
        {name: blocks(text) for name, text in sources.modules(root).items()},
        [gloss for gloss in sources.wordnet(root) if gloss.definition not in spared],
        {code: [pair for pair in sources.catalogue(root, code) if pair[1] not in spared] for code in LANGUAGES},
    )


def documents(root: Path, stuff: Material, spared: str) -> dict[str, list[str]]:
    """The training documents of each source."""
    invented = makers(root)  # those that read no package need no other material, only other seeds
    library = {
        name: [f for f in functions if f.code not in spared]
        for name, functions in _functions(stuff.modules)
        if functions
    }
    written: dict[str, Callable[[random.Random], Draft]] = {
        "synthetic_prose": invented["synthetic_prose"],
        "diverse_qa": lambda rng: generators.diverse_qa(rng, stuff.glosses, stuff.novels),
        "translated_qa": lambda rng: generators.translated_qa(rng, stuff.catalogues),
        "math_text": invented["math_text"],
        "code_instruction": lambda rng: programs.code_instruction(rng, library),
        "general_instruction": lambda rng: chats.general_instruction(rng, stuff.glosses),
        "math_instruction": invented["math_instruction"],
    }
    entries = [f"{', '.join(g.words)}: {g.definition}; “{g.examples[0]}”" for g in stuff.glosses]
    return {
        "novels": [text for paragraphs in stuff.novels.values() for text in _pages(paragraphs)],
        "jargon": list(_pages(stuff.jargon)),
        "manual": list(stuff.manual.values()),
        "code": list(stuff.modules.values()),
        "glosses": ["\n".join(entries[i : i + 40]) for i in range(0, len(entries), 40)],
        **{
            name: ["".join(make(random.Random(f"train/{name}/{i}")).parts)[:SPARED] for i in range(GENERATED)]
            for name, make in written.items()
        },
    }


def _functions(modules: dict[str, str]) -> Iterator[tuple[str, list[programs.Function]]]:
    """The functions of the modules that still parse."""
    for name, text in modules.items():
        try:
            yield name, programs.functions(text)
        except SyntaxError:  # a block was left out of the middle of something
            continue


def _pages(paragraphs: Iterable[str], size: int = 20_000) -> Iterator[str]:
    """Paragraphs joined into documents of about ``size`` characters."""
    page: list[str] = []
    for paragraph in paragraphs:
        page.append(paragraph)
        if sum(map(len, page)) > size:
            yield "\n\n".join(page)
            page = []
    if page:
        yield "\n\n".join(page)


def facts(stuff: Material) -> Facts:
    """Words, glosses and sentence pairs for the generated tasks."""
    words = {word for gloss in stuff.glosses for word in gloss.words}
    words = {w for w in words if w.isascii() and w.isalpha() and w.islower() and 3 <= len(w) <= 8}
    pairs = {LANGUAGES[code].name: found for code, found in stuff.catalogues.items()}
    return Facts(sorted(words), [(g.words[0], g.definition) for g in stuff.glosses], pairs)


def tokenizer_sample(texts: dict[str, list[str]], size: int = 1_000_000) -> Iterator[str]:
    """About as much of every source, so that none owns the vocabulary."""
    for source, found in texts.items():
        taken = 0
        for text in random.Random(source).sample(found, len(found)):
            yield text
            taken += len(text)
            if taken > size:
                break


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gatesight.tiny.prepare", description=__doc__)
    parser.add_argument("library", type=Path, help="folder to write")
    parser.add_argument("--sources", type=Path, default=Path("sources"), help="where the packages were unpacked")
    arguments = parser.parse_args()
    try:
        spared = embedded(arguments.sources)
        stuff = material(arguments.sources, spared)
        texts = documents(arguments.sources, stuff, spared)
        tokenizer = train_tokenizer(tokenizer_sample(texts), Architecture().vocabulary)
        prepare(arguments.library, texts, facts(stuff), tokenizer)
        library = Library(arguments.library)
    except GateSightError as error:
        raise SystemExit(f"error: {error}") from None
    console = Console()
    for source, found in texts.items():
        console.print(f"{source}: {len(found)} documents, {sum(map(len, found)):,} characters")
    console.print(f"{library.tokens('train'):,} tokens for training, {library.tokens('held'):,} held out")


if __name__ == "__main__":
    main()

"""Readers of public-domain and permissively licensed text in unpacked Debian packages.

Each takes the folder into which the packages were unpacked (see :mod:`gatesight.tiny.corpora.build`).
"""

from __future__ import annotations

import ast
import gettext
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from gatesight.errors import GateSightError

PUBLIC_DOMAIN, WORDNET, POSTGRESQL, PSF = "public domain", "WordNet-3.0", "PostgreSQL", "PSF-2.0"


@dataclass(frozen=True)
class Gloss:
    """A sense of WordNet: words of one meaning, their definition and examples of their use."""

    words: tuple[str, ...]
    definition: str
    examples: tuple[str, ...]


def austen(root: Path) -> dict[str, list[str]]:
    """The paragraphs of Jane Austen's six novels (``r-cran-janeaustenr``), by title."""
    data = _file(root, "usr/lib/R/site-library/janeaustenr/data/Rdata.rdb").read_bytes()
    novels = {}
    while data:  # an R lazy-load database: compressed vectors of strings, one after the other
        block = zlib.decompressobj()
        lines = _r_strings(block.decompress(data[4:]))
        data = block.unused_data
        title = " ".join(lines[0].title().replace("And", "and").split())
        paragraphs = [" ".join(p.split()) for p in "\n".join(lines).split("\n\n")]
        novels[title] = [p for p in paragraphs if len(p) > 40 and not p.isupper()]
    return novels


def _r_strings(block: bytes) -> list[str]:
    """The strings of a serialised R character vector: each has a four-byte type of 9 (CHARSXP) and a four-byte length."""
    found, at = [], block.index(b"\x00\x04\x00\x09")
    while block[at + 2 : at + 4] == b"\x00\x09":
        size = int.from_bytes(block[at + 4 : at + 8], "big")
        found.append(block[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        at += 8 + size
    return found


def jargon(root: Path) -> list[str]:
    """The longer entries of the Jargon File (``dict-jargon``), in order, without those in rough language."""
    text = gzip.decompress(_file(root, "usr/share/dictd/jargon.dict.dz").read_bytes()).decode("utf-8")
    entries = re.split(r"\n\n+(?=\S)", text[text.index("\n0\n") :])
    entries = [re.sub(r" +", " ", re.sub(r"\n +", "\n", entry)).strip() for entry in entries]
    return [
        entry for entry in entries if len(entry) > 250 and not re.search(r"fuck|shit|\bsex|bitch|\bass\b", entry, re.I)
    ]


def wordnet(root: Path) -> list[Gloss]:
    """The glosses of WordNet's nouns and verbs (``wordnet-base``) whose first word stands in their first example."""
    found = []
    for kind in ("noun", "verb"):
        for line in _file(root, f"usr/share/wordnet/data.{kind}").read_text("utf-8").splitlines():
            if line.startswith("  ") or "|" not in line:
                continue
            fields, gloss = line.split(" | ")[0].split(), line.split(" | ", 1)[1].strip()
            names = tuple(fields[4 + 2 * i].replace("_", " ") for i in range(int(fields[3], 16)))
            examples = tuple(re.findall(r'"([^"]+)"', gloss))
            definition = re.split(r'[;:]? "', gloss)[0].strip("; ")
            if re.search(r"offensive|derogatory|ethnic|slur|sexual|obscen|vulgar|prostitut|slave", gloss):
                continue
            if examples and names[0] in examples[0] and 20 < len(definition) < 110 and names[0].islower():
                found.append(Gloss(names, definition, examples))
    return found


def catalogue(root: Path, language: str) -> list[tuple[str, str]]:
    """English messages of PostgreSQL and their translation (``postgresql-15``, ``postgresql-client-15``), without placeholders."""
    pairs: dict[str, str] = {}
    folder = _file(root, f"usr/share/locale/{language}/LC_MESSAGES")
    for path in sorted(set(folder.glob("*.mo")) - set(folder.glob("pg_dump*.mo"))):  # pg_dump has a licence of its own
        with path.open("rb") as file:
            messages: dict = vars(gettext.GNUTranslations(file))["_catalog"]
        for english, translated in messages.items():
            if (
                isinstance(english, str)
                and _is_sentence(english)
                and _is_sentence(translated)
                and english != translated
            ):
                pairs.setdefault(english, translated)
    return sorted(pairs.items())


def _is_sentence(text: object) -> bool:
    return (
        isinstance(text, str)
        and 24 < len(text) < 130
        and text[0].isalpha()
        and not re.search(r"[%\n\x04\\<>|]|--|\.\.\.", text)
    )


def manual(root: Path) -> dict[str, str]:
    """Pages of PostgreSQL's manual (``postgresql-doc-15``) that are mostly prose, by file name."""
    pages = {}
    for path in sorted(_file(root, "usr/share/doc/postgresql-doc-15/html").glob("*.html")):
        if not re.match(
            r"(sql|app|release|errcodes|features|catalog|view|infoschema|contrib|bookindex|acronyms|biblio)", path.name
        ):
            reader = _Prose()
            reader.feed(path.read_text("utf-8"))
            pages[path.name] = re.sub(r"\n{3,}", "\n\n", "\n\n".join(reader.blocks))
    return pages


class _Prose(HTMLParser):
    """Collects headings, paragraphs and listings of a page as blocks of text."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._open: list[str] = []
        self._kind = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("p", "pre", "h2", "h3"):
            self._finish()
            self._kind = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._kind:
            self._finish()

    def handle_data(self, data: str) -> None:
        if self._kind:
            self._open.append(data)

    def _finish(self) -> None:
        text = "".join(self._open).replace("\xa0", " ")
        text = text.strip("\n") if self._kind == "pre" else " ".join(text.split())
        if text and not re.match(r"(Table|Figure) \d", text):
            self.blocks.append(text)
        self._open, self._kind = [], ""


def modules(root: Path) -> dict[str, str]:
    """Source of the modules of Python's standard library (``libpython3.11-stdlib``), by name.

    Modules that speak of a copyright or a licence of their own are left out, folders to which the package's copyright file gives
    another owner (``logging``, ``multiprocessing``, ``sqlite3``), and modules that are mostly tables.
    """
    base = _file(root, "usr/lib/python3.11")
    found = {}
    for path in sorted(base.rglob("*.py")):
        name = path.relative_to(base).as_posix()
        if re.search(
            r"(^|/)(test|tests|idlelib|lib2to3|encodings|pydoc_data|site-packages|dist-packages|logging|multiprocessing|sqlite3)/|^_sysconfigdata",
            name,
        ):
            continue
        text = path.read_text("utf-8", "replace")
        if (
            not re.search(r"copyright|licen[sc]e", text, re.IGNORECASE)
            and len(text) > 3000
            and max(map(len, text.split("\n"))) < 160
        ):
            found[name] = text
    return found


def definitions(source: str) -> Iterator[tuple[int, ast.stmt]]:
    """The first line (from 0, decorators included) and the tree of each function and class at the top of a module."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield min([node.lineno, *(d.lineno for d in node.decorator_list)]) - 1, node


def _file(root: Path, name: str) -> Path:
    if not (path := root / name).exists():
        raise GateSightError(
            f"'{path}' is missing: unpack the Debian packages named in gatesight/tiny/corpora/build.py."
        )
    return path

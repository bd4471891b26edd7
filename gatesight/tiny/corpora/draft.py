"""What every maker of documents hands over, and how a draft becomes a document of the right length."""

from __future__ import annotations

import random
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

SHORTEST, LONGEST = 790, 1210
"""Tokens of the tiny model's tokenizer; a little inside 750 to 1,250, so that a similar tokenizer gives that too."""

USER, ASSISTANT, END = "<|im_start|>user\n", "<|im_start|>assistant\n", "<|im_end|>\n"
"""Turns as the tiny model's chat template writes them."""

OWN = "Apache-2.0"
"""Licence of what our own generators write."""


@dataclass(frozen=True)
class Draft:
    """A text too long, in parts: it may break off after any of them, as a pretraining document cut by length does.

    The parts of questions and answers end where an answer begins, so that what follows needs the text before.
    """

    parts: Sequence[str]
    source: str
    license: str

    def cut(self, tokenizer: Tokenizer, length: int) -> str | None:
        """The text up to the last part that ends within ``length`` tokens; ``None`` if that is under ``SHORTEST``."""
        ends = [stop for _, stop in tokenizer.encode("".join(self.parts)).offsets]
        text, size = "", 0
        for part in self.parts:
            if bisect_right(ends, size + len(part)) > length:
                break
            text, size = text + part, size + len(part)
        text = text.rstrip(" ")
        return text if SHORTEST <= len(tokenizer.encode(text)) <= length else None


def words(text: str) -> list[str]:
    """Parts of plain text: it may break off after any word."""
    return re.findall(r"\s*\S+", text)


def dialogue(turns: Iterable[tuple[str, str]]) -> list[str]:
    """Parts of a chat of (question, answer) turns, each breaking off where an answer begins or between its paragraphs."""
    parts, before = [], ""
    for question, answer in turns:
        parts.append(f"{before}{USER}{question}{END}{ASSISTANT}")
        *paragraphs, last = re.split(r"(?<=\n\n)", answer)
        parts += paragraphs
        before = f"{last}{END}"
    return [*parts, before]


def choose_length(rng: random.Random) -> int:
    """Tokens of a document, spread evenly."""
    return rng.randint(SHORTEST + 60, LONGEST)

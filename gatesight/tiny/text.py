"""Tokenised text and word lists for training: prepared once into a folder, read by the generators."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from gatesight.errors import GateSightError
from gatesight.files import atomic_path, atomic_write
from gatesight.tiny.architecture import END_OF_TEXT

Split = Literal["train", "held"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>"]
"""Special tokens in the order of their ids."""

HELD_OUT = 25
"""One document in so many is held out of training."""


@dataclass(frozen=True)
class Facts:
    """What the generators fill their templates with."""

    words: Sequence[str]
    """Single lower-case English words."""
    glosses: Sequence[tuple[str, str]]
    """Words and their definitions."""
    pairs: Mapping[str, Sequence[tuple[str, str]]]
    """For each language, English sentences and their translations."""

    def part(self, split: Split) -> Facts:
        """The facts of training, or those held out: every ``HELD_OUT``-th."""

        def cut(items: Sequence) -> list:
            return [x for i, x in enumerate(items) if (i % HELD_OUT == 0) == (split == "held")]

        return Facts(cut(self.words), cut(self.glosses), {k: cut(v) for k, v in self.pairs.items()})


class Library:
    """A prepared folder: ``tokenizer.json``, ``facts.json`` and ``<source>.<split>.npy``, uint16 token streams.

    Raises:
        GateSightError: the folder is missing or not prepared.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / "tokenizer.json").is_file():
            raise GateSightError(
                f"no prepared text in '{folder}': make it with `python -m gatesight.tiny.prepare {folder}`."
            )
        self.tokenizer: Tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.vocabulary: int = self.tokenizer.get_vocab_size()
        values = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
        facts = Facts(
            values["words"],
            [(w, g) for w, g in values["glosses"]],
            {language: [(a, b) for a, b in pairs] for language, pairs in values["pairs"].items()},
        )
        splits: tuple[Split, Split] = ("train", "held")
        self.facts: dict[Split, Facts] = {split: facts.part(split) for split in splits}
        self._streams: dict[Split, dict[str, NDArray[np.uint16]]] = {
            split: {p.name.split(".")[0]: np.load(p, mmap_mode="r") for p in sorted(folder.glob(f"*.{split}.npy"))}
            for split in splits
        }

    @property
    def sources(self) -> list[str]:
        return list(self._streams["train"])

    def tokens(self, split: Split) -> int:
        """How many tokens of text there are."""
        return sum(len(stream) for stream in self._streams[split].values())

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text).ids
        return ids

    def passage(self, rng: random.Random, length: int, split: Split, source: str | None = None) -> list[int]:
        """``length`` tokens (fewer where the source is shorter) from a random place of a source, of a random one by default.

        Sources are drawn by the square root of their size, so that small ones are seen and not learnt by heart.
        """
        streams = self._streams[split]
        if source is None:
            source = rng.choices(list(streams), [len(s) ** 0.5 for s in streams.values()])[0]
        stream = streams[source]
        start = rng.randint(0, max(0, len(stream) - length))
        ids: list[int] = stream[start : start + length].tolist()
        return ids


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE in which every digit is its own token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def prepare(folder: Path, documents: dict[str, list[str]], facts: Facts, tokenizer: Tokenizer) -> None:
    """Write a library: the documents of each source tokenised, shuffled and split, and the facts.

    Raises:
        GateSightError: the folder cannot be written.
    """
    for source, texts in documents.items():
        shuffled = random.Random(source).sample(texts, len(texts))
        held = max(1, len(shuffled) // HELD_OUT)
        for split, part in (("held", shuffled[:held]), ("train", shuffled[held:])):
            ids = [i for e in tokenizer.encode_batch(part) for i in (*e.ids, END_OF_TEXT)]
            with atomic_path(folder / f"{source}.{split}.npy") as path, path.open("wb") as file:
                np.save(file, np.array(ids, dtype=np.uint16))
    values = {"words": list(facts.words), "glosses": list(facts.glosses), "pairs": facts.pairs}
    atomic_write(folder / "facts.json", json.dumps(values, ensure_ascii=False))
    atomic_write(folder / "tokenizer.json", tokenizer.to_str())

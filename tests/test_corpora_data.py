"""The nine embedded corpora: complete, of the right lengths, licensed, small, and free of benchmark names."""

from __future__ import annotations

import random
import re

import pyarrow.parquet as pq
import pytest
from tokenizers import Tokenizer

from gatesight.tiny import CORPORA, MODEL
from gatesight.tiny.corpora import NAMES
from gatesight.tiny.corpora.draft import Draft, dialogue, words
from gatesight.tiny.corpora.generators import synthetic_prose
from gatesight.tiny.corpora.mathematics import math_text
from gatesight.tiny.corpora.problems import math_instruction
from gatesight.tiny.corpora.programs import functions

LICENSES = {"Apache-2.0", "PSF-2.0", "PostgreSQL", "WordNet-3.0", "public domain"}
BENCHMARK = re.compile(
    r"\b(RULER|NIAH|HELMET|MRCR)\b|longbench|scbench|infinitebench|needle in a haystack|loogle|zeroscrolls|l-eval\b|babilong|nolima|repoqa",
    re.ASCII,
)


def rows(name: str) -> list[dict[str, str]]:
    return pq.read_table(CORPORA / f"{name}.parquet").to_pylist()


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


@pytest.mark.parametrize("name", NAMES)
def test_corpus_holds_enough_documents_of_the_right_length(name: str, tokenizer: Tokenizer) -> None:
    documents = rows(name)
    assert len(documents) >= 64
    assert [d["doc_id"] for d in documents] == [f"{name}/{i:05d}" for i in range(len(documents))]
    lengths = [len(e) for e in tokenizer.encode_batch([d["text"] for d in documents], add_special_tokens=False)]
    assert min(lengths) >= 750
    assert max(lengths) <= 1250


@pytest.mark.parametrize("name", NAMES)
def test_every_document_names_its_source_and_licence(name: str) -> None:
    for document in rows(name):
        assert document["source"]
        assert document["license"] in LICENSES


def test_texts_are_different_and_name_no_benchmark() -> None:
    texts = [d["text"] for name in NAMES for d in rows(name)]
    assert len(set(texts)) == len(texts)
    for text in texts:
        assert not re.search(r"\b(RULER|NIAH|HELMET|MRCR)\b", text)
        assert not BENCHMARK.search(text.lower())


def test_corpora_are_small() -> None:
    assert {p.stem for p in CORPORA.glob("*.parquet")} == set(NAMES)
    assert sum(p.stat().st_size for p in CORPORA.glob("*.parquet")) <= 4 * 2**20


def test_dialogues_follow_the_chat_template() -> None:
    turn = re.compile(r"<\|im_start\|>(user|assistant)\n")
    for name in ("code_instruction", "general_instruction", "math_instruction"):
        for document in rows(name):
            roles = turn.findall(document["text"])
            assert roles == (["user", "assistant"] * len(roles))[: len(roles)]
            assert document["text"].count("<|im_start|>") == len(roles)
            assert len(roles) - document["text"].count("<|im_end|>\n") in (0, 1)


@pytest.mark.parametrize("maker", [synthetic_prose, math_text, math_instruction])
def test_generators_are_deterministic(maker) -> None:
    assert maker(random.Random("x")) == maker(random.Random("x"))
    assert maker(random.Random("x")) != maker(random.Random("y"))


def test_a_draft_breaks_off_after_a_part(tokenizer: Tokenizer) -> None:
    draft = Draft([f"Sentence number {i} of many. " for i in range(400)], "", "")
    text = draft.cut(tokenizer, 1000)
    assert text is not None
    assert text.endswith("of many.")
    assert 985 <= len(tokenizer.encode(text)) <= 1000
    assert Draft(words("too short"), "", "").cut(tokenizer, 1000) is None


def test_parts_of_a_dialogue_end_where_answers_begin() -> None:
    parts = dialogue([("1 + 1?", "First.\n\n2"), ("2 + 2?", "4")])
    assert parts == [
        "<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n",
        "First.\n\n",
        "2<|im_end|>\n<|im_start|>user\n2 + 2?<|im_end|>\n<|im_start|>assistant\n",
        "4<|im_end|>\n",
    ]


def test_functions_are_read_with_what_they_take_call_and_return() -> None:
    source = 'class A:\n    def total(self, items, start):\n        """Add the items to the start value."""\n        value = start\n        for item in items:\n            value += len(item)\n        return value\n'
    (found,) = functions(source)
    assert (found.owner, found.name, found.arguments) == ("A", "total", ("items", "start"))
    assert (found.uses, found.gives) == ("calls `len`", "returns `value`")
    assert found.code.startswith("def total(self")

"""Documents come from folders and tables in a fixed order, and those that do not fit are left out and counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hydra.utils import instantiate
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tokenizers import Tokenizer

from gatesight import GateSightError
from gatesight.recording.benchmarks import named_benchmark
from gatesight.recording.corpora import TextDocument, choose, embedded, folder, hub
from gatesight.tiny import MODEL
from gatesight.tiny.corpora import NAMES
from gatesight.tiny.corpora.table import fill


def words(text: str) -> int:
    return len(text.split())


def documents(*texts: str, corpus: str = "a") -> dict[str, list[TextDocument]]:
    return {corpus: [TextDocument(f"{corpus}/{i}", corpus, text) for i, text in enumerate(texts)]}


@pytest.fixture
def library(tmp_path: Path) -> Path:
    (tmp_path / "tales").mkdir()
    (tmp_path / "tales" / "b.txt").write_text("second tale")
    (tmp_path / "tales" / "a.txt").write_text("first tale")
    (tmp_path / "loose.txt").write_text("a loose sheet")
    (tmp_path / "notes.jsonl").write_text("\n".join(json.dumps({"text": f"note {i}", "body": "b"}) for i in range(3)))
    pq.write_table(pa.table({"text": ["row 0", "row 1"], "n": [0, 1]}), tmp_path / "table.parquet")
    return tmp_path


def test_a_folder_gives_its_corpora_in_order(library: Path) -> None:
    found = {corpus: [(d.doc_id, d.text) for d in texts] for corpus, texts in folder(str(library)).items()}
    assert found == {
        library.name: [("loose.txt", "a loose sheet")],
        "notes": [(f"notes.jsonl/{i:05d}", f"note {i}") for i in range(3)],
        "table": [("table.parquet/00000", "row 0"), ("table.parquet/00001", "row 1")],
        "tales": [("tales/a.txt", "first tale"), ("tales/b.txt", "second tale")],
    }


def test_a_folder_may_be_one_corpus(library: Path) -> None:
    found = folder(str(library), corpus="mine")
    ids = [d.doc_id for d in found["mine"]]
    assert list(found) == ["mine"] and len(ids) == len(set(ids)) == 8
    assert {d.corpus for d in folder(str(library), corpus="mine")["mine"]} == {"mine"}


def test_another_column_may_hold_the_text(library: Path) -> None:
    assert [d.text for d in folder(str(library), text_column="body")["notes"]] == ["b", "b", "b"]


def test_hidden_files_and_marks_of_byte_order_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "a.txt").write_text("hidden")
    (tmp_path / "b.txt").write_bytes(b"\xef\xbb\xbfseen")
    (tmp_path / "c.jsonl").write_bytes(b'\xef\xbb\xbf{"text": null}\n\n{"text": "row"}\n')
    assert [d.text for texts in folder(str(tmp_path)).values() for d in texts] == ["seen", "", "row"]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("x.jsonl", b'{"body": "b"}', "no column 'text'"),
        ("x.jsonl", b'{"text": 3}', "row 0 holds no text"),
        ("x.jsonl", b'{"text": "half', "cannot be read"),
        ("x.jsonl", b'["text"]', "no JSON object"),
        ("x.txt", b"\xff\xfe\xff", "cannot be read"),
        ("x.parquet", b"PAR1 no", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(GateSightError, match=rf"{name}.*{reason}"):
        choose(folder(str(tmp_path)), words, 0, 100)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GateSightError, match="is no folder"):
        folder(str(tmp_path / "nowhere"))
    with pytest.raises(GateSightError, match="holds no"):
        folder(str(tmp_path))


def test_a_dataset_is_streamed_by_subset(tmp_path: Path) -> None:
    """`datasets` reads a local dataset as it reads one of the hub."""
    pq.write_table(pa.table({"content": [f"text {i}" for i in range(5)]}), tmp_path / "train.parquet")
    choice = choose(hub(str(tmp_path), text_column="content"), words, 1, 9, limit=2)
    assert [d.text for d in choice.documents] == ["text 0", "text 1"]
    assert {(d.corpus, d.doc_id) for d in choice.documents} == {
        (tmp_path.name, f"{tmp_path.name}/000000{i}") for i in range(2)
    }
    with pytest.raises(GateSightError, match="no column 'text'"):
        choose(hub(str(tmp_path)), words, 1, 9)
    with pytest.raises(GateSightError, match=r"subset nine, cannot be read"):
        choose(hub(str(tmp_path), ["nine"]), words, 1, 9)


def test_subsets_are_corpora_under_their_own_or_a_given_name() -> None:
    assert list(hub("owner/name")) == ["name"]
    assert list(hub("owner/name", ["a", "b"])) == ["a", "b"]
    assert list(hub("owner/name", {"prose": "a", "code": "b"})) == ["prose", "code"]


def test_a_dataset_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(GateSightError, match=r"dataset 'no-such-owner/no-such-data', subset b, cannot be read"):
        choose(hub("no-such-owner/no-such-data", ["b"]), words)


def test_what_is_left_out_is_counted() -> None:
    texts = ["one two", "", "  ", "one two", "we evaluate on RULER here", "one", "one two three four", "three two one"]
    choice = choose(documents(*texts), words, 2, 3)
    assert [d.doc_id for d in choice.documents] == ["a/0", "a/7"]
    assert choice.lengths == [2, 3]
    expected = (
        "a: 2 documents (left out: 2 empty, 1 duplicates, 1 naming a benchmark, 1 under 2 tokens, 1 over 3 tokens)"
    )
    assert choice.report() == expected


def test_a_corpus_is_read_no_further_than_needed() -> None:
    def endless() -> Iterator[TextDocument]:
        i = 0
        while True:
            yield TextDocument(f"a/{i}", "a", f"text {i}")
            i += 1

    assert len(choose({"a": endless()}, words, 1, 9, limit=7).documents) == 7


def test_a_corpus_without_documents_is_refused() -> None:
    with pytest.raises(GateSightError, match=r"corpus 'a' has no document to record \(1 under 5 tokens\)"):
        choose(documents("one two"), words, 5, 9)
    with pytest.raises(GateSightError, match="it is empty"):
        choose({"a": []}, words)


@given(
    st.lists(st.text("ab ", max_size=6), min_size=1, max_size=20),
    st.integers(0, 2),
    st.integers(1, 3),
    st.integers(1, 9),
)
def test_the_chosen_are_the_first_that_fit(texts: list[str], low: int, span: int, limit: int) -> None:
    fits = [t for t in dict.fromkeys(texts) if t.strip() and low <= words(t) <= low + span][:limit]
    if not fits:
        return
    assert [d.text for d in choose(documents(*texts), words, low, low + span, limit).documents] == fits


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("we report RULER, at 4K", "RULER"),
        ("RULER_64", "RULER"),
        ("RULER8K", "RULER8K"),
        ("on ruler-16k too", "ruler-16k"),
        ("LongBench-v2 scores", "LongBench"),
        ("MMLongBench", "MMLongBench"),
        ("the Needle in a Haystack test", "Needle in a Haystack"),
        ("needle-in-the\nhaystack", "needle-in-the\nhaystack"),
        ("task niah_multikey_3", "niah_multikey_3"),
        ("NIAH-1", "NIAH"),
        ("∞Bench", "∞Bench"),
        ("InfiniteBench", "InfiniteBench"),
        ("scbench.kv", "scbench"),
        ("LooGLE and L-Eval", "LooGLE"),
        ("OpenAI-MRCR", "MRCR"),
        ("(HELMET)", "HELMET"),
        ("zeroSCROLLS", "zeroSCROLLS"),
    ],
)
def test_benchmarks_are_known_by_name(text: str, name: str) -> None:
    assert named_benchmark(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "the ruler of Spain, a Ruler",
        "RULERS and GRULER",
        "a helmet, a HELMETED man",
        "haystacks and needles",
        "Niah Caves",
        "scrolls of parchment",
        "googlegoogle",
        "a long bench",
        "le L'Eval",
    ],
)
def test_ordinary_words_are_not(text: str) -> None:
    assert named_benchmark(text) is None


def test_the_embedded_corpora_are_taken_whole_and_in_order() -> None:
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    choice = choose(embedded(), lambda text: len(tokenizer.encode(text)))
    assert list(choice.kept) == list(NAMES)
    assert not choice.dropped
    assert len({d.doc_id for d in choice.documents}) == len(choice.documents) >= 9 * 64
    assert all(d.doc_id.startswith(f"{d.corpus}/") for d in choice.documents)


def test_a_missing_embedded_corpus_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gatesight.recording.corpora.CORPORA", tmp_path)
    with pytest.raises(GateSightError, match=r"prose.parquet' is missing"):
        embedded()
    for name in NAMES:
        (tmp_path / f"{name}.parquet").write_bytes(b"PAR1")
    with pytest.raises(GateSightError, match=r"prose.parquet' cannot be read"):
        list(embedded()["prose"])


def test_the_page_on_corpora_is_up_to_date() -> None:
    page = (Path(__file__).parents[1] / "docs" / "corpora.md").read_text(encoding="utf-8")
    assert fill(page) == page, "run `python -m gatesight.tiny.corpora.table docs/corpora.md`"


@pytest.mark.parametrize("name", ["embedded", "folder", "hub", "nemotron"])
def test_the_configs_give_corpora(name: str, library: Path) -> None:
    cfg = OmegaConf.load(Path(__file__).parents[1] / "conf" / "corpora" / f"{name}.yaml")
    if OmegaConf.is_missing(cfg, "path"):
        cfg.path = str(library)
    corpora = list(instantiate(cfg))
    assert corpora == {"folder": list(folder(str(library))), "hub": [library.name]}.get(name, list(NAMES))


def test_embedded_documents_are_joined_into_longer_ones() -> None:
    single, joined = ({name: list(texts) for name, texts in embedded(join).items()} for join in (1, 3))
    for name, documents in joined.items():
        assert len(documents) == len(single[name]) // 3
        assert documents[1].doc_id == single[name][3].doc_id
        assert documents[1].text == "\n\n".join(document.text for document in single[name][3:6])
    with pytest.raises(GateSightError, match=r"corpora\.join=0"):
        embedded(0)

"""What is drawn depends on (seed, epoch, document) alone; labels leave the prefix out; bad recordings are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from data_modules.recording import Batch, EpochBatches, RecordingDataModule, ResidentDocuments, draw
from gatesight import GateSightError
from gatesight.features import age_features
from tests.synthetic import CORPORA, write_recording


@settings(deadline=None, max_examples=60)
@given(n=st.integers(1, 3000), prefix=st.integers(0, 300), count=st.integers(1, 500), epoch=st.integers(0, 20))
def test_draws_are_distinct_positions_behind_the_prefix(n: int, prefix: int, count: int, epoch: int) -> None:
    drawn = draw(0, epoch, "prose/00001", prefix, prefix + n, count)
    assert len(np.unique(drawn)) == len(drawn) == min(n, count)
    assert drawn.min() >= prefix
    assert drawn.max() < prefix + n
    assert np.array_equal(drawn, draw(0, epoch, "prose/00001", prefix, prefix + n, count))


def test_draws_differ_by_seed_epoch_and_document_and_are_fixed_for_ever() -> None:
    base = draw(0, 0, "a", 0, 1000, 50)
    for other in (draw(1, 0, "a", 0, 1000, 50), draw(0, 1, "a", 0, 1000, 50), draw(0, 0, "b", 0, 1000, 50)):
        assert not np.array_equal(base, other)
    assert draw(0, 0, "a", 0, 20, 5).tolist() == [4, 6, 7, 11, 12]


def test_every_position_is_drawn_equally_often() -> None:
    hits = np.zeros(50)
    for epoch in range(400):
        hits[draw(0, epoch, "a", 0, 50, 10)] += 1
    assert abs(hits - 80).max() < 40  # five standard deviations


@pytest.mark.parametrize("world", [1, 2, 3])
def test_ranks_share_every_batch_and_each_document_once(world: int) -> None:
    ranks = [EpochBatches(10, 4, seed=0, epoch=3, rank=r, world=world) for r in range(world)]
    keys = [list(rank) for rank in ranks]
    assert {len(k) for k in keys} == {len(ranks[0])} == {3}
    batches = [sorted(d for rank in keys for d in rank[b][1]) for b in range(3)]
    assert batches == [sorted(documents) for _, documents in EpochBatches(10, 4, seed=0, epoch=3)]
    assert sorted(d for batch in batches for d in batch) == list(range(10))


def test_the_order_changes_with_the_epoch() -> None:
    sampler = EpochBatches(20, 20, seed=0)
    first = next(iter(sampler))
    sampler.set_epoch(1)
    assert first != next(iter(sampler))


def test_a_batch_holds_what_was_recorded(recording: Path) -> None:
    data = RecordingDataModule(str(recording), positions=20)
    batch = data.train_set[(2, (4, 0))]
    offset = 0
    for index in (4, 0):
        document = data.recording[index]
        rows = draw(0, 2, document.doc_id, document.prefix, len(document), 20)
        own = slice(offset, offset + len(rows))
        assert torch.equal(batch.signals[own], torch.from_numpy(document.signals[rows]).float())
        label = document.utility[rows] / document.utility[document.prefix :].max(0)
        np.testing.assert_allclose(batch.label[..., own], label.transpose(1, 2, 0))
        assert torch.equal(batch.age[own], age_features(torch.from_numpy(rows), len(document)))
        assert set(batch.corpus[own].tolist()) == {CORPORA.index(document.corpus)}
        offset += len(rows)
    assert len(batch.signals) == offset


def test_an_empty_share_of_a_batch_is_a_batch_without_rows(recording: Path) -> None:
    batch = RecordingDataModule(str(recording)).train_set[(0, ())]
    assert batch.signals.shape == (0, 6, 3, 3)
    assert batch.label.shape == (2, 2, 0)


def test_folds_choose_documents(recording: Path) -> None:
    def sizes(fold: str) -> tuple[list[str], int, int]:
        data = RecordingDataModule(str(recording), fold=fold)
        return data.folds, len(data.train_set), len(data.test_set)

    assert sizes("loco") == ([*CORPORA[:3], "none"], 9, 9)
    assert sizes("none") == (["none"], 9, 9)
    assert sizes("diverse_qa") == (["diverse_qa"], 6, 3)


def test_bad_recordings_are_refused(tmp_path: Path, recording: Path) -> None:
    with pytest.raises(GateSightError, match=r"no recording of model 'qwen27b' .* `python record.py model=qwen27b`"):
        RecordingDataModule(str(tmp_path / "nothing"), model="qwen27b")
    with pytest.raises(GateSightError, match=r"fold=cod: choose loco, none or a corpus .*prose, synthetic_prose"):
        RecordingDataModule(str(recording), fold="cod")
    with pytest.raises(GateSightError, match=r"'prose/00000' .* has 5 tokens, all of them in its prefix of 5"):
        RecordingDataModule(str(write_recording(tmp_path / "short", tokens=(5, 5), prefix=5)))
    with pytest.raises(GateSightError, match="holds only the corpus 'prose'"):
        RecordingDataModule(str(write_recording(tmp_path / "one", corpora=("prose",))))
    with pytest.raises(GateSightError, match="a corpus cannot be named 'none'"):
        RecordingDataModule(str(write_recording(tmp_path / "name", corpora=("prose", "none"))))


def test_resident_documents_give_the_batches_that_are_read(recording: Path) -> None:
    read, resident = (
        RecordingDataModule(str(recording), fold="prose", batch_size=2, resident=r) for r in (False, True)
    )
    for epoch in range(2):
        batches = zip(*(_epoch(data, epoch) for data in (read, resident)), strict=True)
        for first, second in batches:
            for a, b in zip(first, second, strict=True):
                assert torch.equal(a, b)


def test_a_rank_without_a_share_gets_an_empty_batch(recording: Path) -> None:
    data = RecordingDataModule(str(recording))
    read, resident = data.train_set[0, ()], ResidentDocuments(data.train_set, torch.device("cpu"))[0, ()]
    assert [x.shape for x in read] == [x.shape for x in resident]
    assert len(read.signals) == 0


def _epoch(data: RecordingDataModule, epoch: int) -> list[Batch]:
    loader = data.train_dataloader()
    loader.sampler.set_epoch(epoch)  # type: ignore[union-attr]
    return list(loader)

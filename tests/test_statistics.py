"""Input moments are exact, never see a held-out corpus, and are cached only where they may be."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import gatesight.recording.store as store
from gatesight import GateSightError
from gatesight.recording.store import Recording
from gatesight.statistics import CACHE, Moments, recording_statistics
from tests.synthetic import CORPORA, write_recording


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    offset=st.sampled_from([0.0, 1.0, -1e3]),
    spread=st.sampled_from([1e-3, 1.0, 50.0]),
)
def test_merged_moments_standardise_like_numpy(rows: list[int], offset: float, spread: float) -> None:
    random = np.random.default_rng(0)
    parts = [torch.from_numpy(offset + spread * random.standard_normal((n, 4))) for n in rows]
    merged = sum((Moments.of(p) for p in parts[1:]), Moments.of(parts[0]))
    everything = np.concatenate([p.numpy() for p in parts])
    assert merged.count == len(everything)
    np.testing.assert_allclose(merged.mean, everything.mean(0), rtol=1e-12, atol=1e-13 * (abs(offset) + spread))
    np.testing.assert_allclose(merged.m2, everything.var(0) * len(everything), rtol=1e-6, atol=1e-12)
    shift, scale = merged.standardisation()
    if len(everything) > 1:
        np.testing.assert_allclose(scale, 1 / everything.std(0), rtol=1e-4)
    np.testing.assert_allclose(shift, everything.mean(0), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("constant", [0.0, 0.1, -7e-5, 123.4])
def test_a_constant_input_keeps_scale_one_and_becomes_zero(constant: float) -> None:
    value = float(np.float16(constant))
    parts = [Moments.of(torch.full((n, 1), value, dtype=torch.float64)) for n in (7, 900, 13)]
    shift, scale = sum(parts[1:], parts[0]).standardisation()
    assert scale.item() == 1
    assert (torch.tensor(value) - shift).item() == 0


def test_statistics_of_a_recording(recording: Path) -> None:
    opened = Recording(recording)
    found = recording_statistics(opened)
    for c, corpus in enumerate(CORPORA[:3]):
        bodies = [d.signals[d.prefix :].astype(np.float64) for d in opened if d.corpus == corpus]
        signals = np.concatenate(bodies).reshape(sum(map(len, bodies)), -1)
        assert found.count[c] == len(signals)
        np.testing.assert_allclose(found.mean[c, :-3], signals.mean(0), rtol=1e-10)
        np.testing.assert_allclose(found.m2[c, :-3], signals.var(0) * len(signals), rtol=1e-8)
    decay = np.median(np.log(0.5) / np.stack([d.mean_decay for d in opened]), axis=0)
    np.testing.assert_allclose(found.half_life([0, 1, 2]), decay, rtol=1e-5)
    gate = np.stack([d.gate_query for d in opened]).mean(0).reshape(2, 2, 3).max(-1).mean(-1)
    np.testing.assert_allclose(found.gate_weights([0, 1, 2], opened.layout), gate, rtol=1e-5)


def test_a_held_out_corpus_does_not_reach_the_moments(tmp_path: Path, recording: Path) -> None:
    changed = Recording(write_recording(tmp_path, scale={CORPORA[1]: 5.0}))
    before, after = recording_statistics(Recording(recording)), recording_statistics(changed)
    for name in ("mean", "m2"):
        a, b = (getattr(s.moments([0, 2]), name) for s in (before, after))
        assert torch.equal(a, b)
    assert not torch.equal(before.moments([0, 1]).mean, after.moments([0, 1]).mean)


def test_the_cache_follows_its_recording(tmp_path: Path) -> None:
    write_recording(tmp_path)
    first = recording_statistics(Recording(tmp_path))
    content = (tmp_path / CACHE).read_bytes()
    assert torch.equal(recording_statistics(Recording(tmp_path)).mean, first.mean)
    (tmp_path / CACHE).write_bytes(content[:100])  # a damaged cache is made anew
    assert torch.equal(recording_statistics(Recording(tmp_path)).mean, first.mean)
    assert (tmp_path / CACHE).read_bytes() == content
    write_recording(tmp_path, seed=1)
    assert not torch.equal(recording_statistics(Recording(tmp_path)).mean, first.mean)


def test_a_folder_that_cannot_be_written_is_left_without_cache(
    tmp_path: Path, recording: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(recording, tmp_path / "copy", ignore=shutil.ignore_patterns(CACHE))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")  # root may write anywhere, so modes would not do

    monkeypatch.setattr("gatesight.statistics.save_file", refuse)
    assert recording_statistics(Recording(tmp_path / "copy")).count.sum() > 0
    assert not (tmp_path / "copy" / CACHE).exists()


@pytest.mark.parametrize("column", ["signals", "utility"])
def test_nan_is_refused_with_shard_and_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    original = store.Manifest.to_row

    def poisoned(self: store.Manifest, document: store.RecordedDocument) -> object:
        if document.doc_id == "prose/00001":
            getattr(document, column).reshape(-1)[-1] = np.nan
            with monkeypatch.context() as patch:
                patch.setattr(np, "isfinite", lambda array: np.ones_like(array, bool))
                return original(self, document)
        return original(self, document)

    monkeypatch.setattr(store.Manifest, "to_row", poisoned)
    write_recording(tmp_path)
    with pytest.raises(
        GateSightError, match=rf"'prose/00001' in '.*shard-00000-of-00001.parquet' holds NaN .*{column}"
    ):
        recording_statistics(Recording(tmp_path))

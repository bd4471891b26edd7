"""The store gives back what was put in, reads only what is asked for, and refuses damaged or mixed folders."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gatesight import GateSightError, HybridLayout
from gatesight.recording.store import ARRAYS, Manifest, RecordedDocument, Recording, dimensions, shard_name, write_rows

LAYOUT = HybridLayout(
    model_type="qwen3_5_text",
    gdn_layers=(0, 1, 2),
    attention_layers=(3,),
    hidden_size=64,
    value_heads=6,
    key_heads=2,
    value_dim=8,
    key_dim=8,
    query_heads=4,
    kv_heads=2,
    head_dim=16,
)


def manifest(packed: bool = False, model: str = "a") -> Manifest:
    return Manifest(LAYOUT, dimensions(LAYOUT, 4, 8), {"model": model}, packed)


def document(name: str, n: int, seed: int = 0) -> RecordedDocument:
    random = np.random.default_rng(seed)
    sizes = {**manifest().sizes, "n": n, "3": 3}
    arrays: dict[str, Any] = {}
    for field, (dtype, shape) in ARRAYS.items():
        size = tuple(sizes[letter] for letter in shape.split())
        values = random.integers(0, 100, size) if dtype == "<i4" else random.standard_normal(size)
        arrays[field] = values.astype(dtype)
    return RecordedDocument(doc_id=name, corpus=name[0], prefix=1, **arrays)


def write(folder: Path, shards: list[list[RecordedDocument]], made_by: Manifest) -> None:
    for i, documents in enumerate(shards):
        write_rows(
            folder / shard_name(i, len(shards)), [made_by.to_row(document) for document in documents], made_by.packed
        )


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 50), min_size=2, max_size=6), packed=st.booleans())
def test_documents_come_back(tmp_path_factory: pytest.TempPathFactory, lengths: list[int], packed: bool) -> None:
    folder = tmp_path_factory.mktemp("recording")
    documents = [document(f"{'ab'[i % 2]}/{i}", n, seed=i) for i, n in enumerate(lengths)]
    documents[0].signals[0, 0, 0, 0] = 65504  # the largest float16
    write(folder, [documents[:1], documents[1:]], manifest(packed))
    recording = Recording(folder)
    assert recording.manifest == manifest(packed)
    assert recording.lengths == lengths
    assert recording.corpora == [d.corpus for d in documents]
    for put, got in zip(documents, recording, strict=True):
        for field in dataclasses.fields(put):
            if packed and field.name == "signals":
                np.testing.assert_allclose(got.signals, put.signals, rtol=2**-8, atol=2**-22)  # half a step of float16
                assert not (got.signals.view(np.uint16) & 7).any()
            else:
                np.testing.assert_array_equal(getattr(put, field.name), getattr(got, field.name))


def test_reading_some_columns_and_crossing_processes(tmp_path: Path) -> None:
    write(tmp_path, [[document("a/0", 5)]], manifest())
    recording: Recording = pickle.loads(pickle.dumps(Recording(tmp_path)))
    values = recording.read(0, ["corpus", "utility"])
    assert set(values) == {"corpus", "utility"}
    assert values["utility"].shape == (5, 1, 2)


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name, [[document("a/0", 9), document("a/1", 3)]], manifest())
    first, second = ((tmp_path / name / shard_name(0, 1)).read_bytes() for name in ("one", "two"))
    assert first == second


def test_packing_saves_space_on_signals(tmp_path: Path) -> None:
    for packed in (False, True):
        write(tmp_path / str(packed), [[document("a/0", 800)]], manifest(packed))
    plain, packed_size = ((tmp_path / str(p) / shard_name(0, 1)).stat().st_size for p in (False, True))
    assert packed_size < 0.8 * plain


def test_values_that_are_not_finite_are_never_written() -> None:
    broken = document("a/0", 4)
    broken.signals[2, 1, 0, 1] = np.nan
    with pytest.raises(GateSightError, match=r"a/0.*NaN"):
        manifest().to_row(broken)


def test_a_wrong_shape_is_never_written() -> None:
    with pytest.raises(GateSightError, match=r"utility has shape \(4, 2, 1\)"):
        manifest().to_row(dataclasses.replace(document("a/0", 4), utility=np.zeros((4, 2, 1), np.float32)))


def test_a_corrupt_shard_is_named(tmp_path: Path) -> None:
    write(tmp_path, [[document("a/0", 400)], [document("b/0", 400)]], manifest())
    path = tmp_path / shard_name(1, 2)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF  # one flipped byte in the middle of the signals
    path.write_bytes(content)
    recording = Recording(tmp_path)
    assert len(recording[0]) == 400
    with pytest.raises(GateSightError, match=r"shard-00001-of-00002\.parquet' is corrupt"):
        recording[1]
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(GateSightError, match=r"shard-00001-of-00002\.parquet' is corrupt"):
        Recording(tmp_path)


def test_two_models_in_one_folder_are_refused(tmp_path: Path) -> None:
    write_rows(tmp_path / shard_name(0, 2), [manifest(model="a").to_row(document("a/0", 4))], False)
    write_rows(tmp_path / shard_name(1, 2), [manifest(model="b").to_row(document("b/0", 4))], False)
    with pytest.raises(GateSightError, match=r"mixes several recordings.*model a.*model b"):
        Recording(tmp_path)


def test_missing_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GateSightError, match="no recording at"):
        Recording(tmp_path / "nowhere")
    with pytest.raises(GateSightError, match="no recording at"):
        Recording(tmp_path)
    write(tmp_path, [[document("a/0", 4)], [document("a/1", 4)]], manifest())
    (tmp_path / shard_name(0, 2)).unlink()
    with pytest.raises(GateSightError, match="incomplete"):
        Recording(tmp_path)
    write_rows(tmp_path / shard_name(0, 3), [manifest().to_row(document("a/0", 4))], False)
    with pytest.raises(GateSightError, match="mixes shards"):
        Recording(tmp_path)

"""Simulated recordings: written or not they read alike, and what is planted is what can be found."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from gatesight.metrics import spearman
from gatesight.recording.simulated import PLANTED, WINDOW, SimulatedRecording, planted_cells
from gatesight.recording.store import Recording
from tests.test_train_cli import QUICK, ROOT, run

SMALL = {"groups": 2, "value_heads": 3, "kv_heads": 2, "documents": 2, "tokens": (50, 60), "corpora": ("a", "b")}


@pytest.mark.parametrize("packed", [False, True])
def test_written_and_simulated_documents_are_the_same(tmp_path: Path, packed: bool) -> None:
    simulated = SimulatedRecording(**SMALL)
    written = Recording(simulated.write(tmp_path, packed))
    assert (written.doc_ids, written.corpora, written.lengths) == (
        simulated.doc_ids,
        simulated.corpora,
        simulated.lengths,
    )
    assert written.layout == simulated.layout
    for first, second in zip(simulated, written, strict=True):
        for field in dataclasses.fields(first):
            values = getattr(first, field.name), getattr(second, field.name)
            if packed and field.name == "signals":
                np.testing.assert_allclose(*values, rtol=2**-7, atol=2**-22)
            else:
                np.testing.assert_array_equal(*values)


def test_a_document_depends_on_the_seed_and_its_name_alone() -> None:
    first, again = SimulatedRecording(**SMALL), pickle.loads(pickle.dumps(SimulatedRecording(**SMALL)))
    other = SimulatedRecording(**{**SMALL, "seed": 1})
    assert np.array_equal(first[3].signals, again[3].signals)
    assert not np.array_equal(first[2].signals[:50], first[3].signals[:50])
    assert not np.array_equal(first[3].signals[:50], other[3].signals[:50])
    assert len({recording.fingerprint for recording in (first, again, other)}) == 2


def test_planted_heads_correlate_with_utility_and_others_do_not() -> None:
    recording = SimulatedRecording(**{**SMALL, "tokens": (3000, 3000)})
    document, cells = recording[0], planted_cells(recording.layout)
    assert cells.shape == (2, 2, PLANTED, 2)
    for layer, window in enumerate(recording.layout.windows(WINDOW)):
        for head in range(2):
            planted = {(int(g), int(v)) for g, v in cells[layer, head]}
            for g in range(len(recording.layout.gdn_layers)):
                for v in range(3):
                    norm = torch.from_numpy(document.signals[:, g, v, 2].astype(np.float32))
                    rho = float(spearman(norm, torch.from_numpy(document.utility[:, layer, head].copy())))
                    assert (rho > 0.2) == ((g, v) in planted), (g, v, rho)
                    assert (g, v) not in planted or g in window


def test_training_on_a_simulated_recording_runs(tmp_path: Path) -> None:
    shape = [f"data.recording.{key}={value}" for key, value in (("groups", 2), ("value_heads", 3), ("kv_heads", 2))]
    score = run(tmp_path, "data=simulated", *shape, "data.recording.documents=2", "data.resident=true")
    assert 0 < score < 1


def test_the_default_has_the_papers_shape_and_size() -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        data = compose("train", overrides=[*QUICK[1:], "data=simulated"]).data
    recording = instantiate(data.recording)
    layout = recording.layout
    assert (len(layout.gdn_layers), layout.value_heads, len(layout.attention_layers), layout.kv_heads) == (
        48,
        48,
        16,
        4,
    )
    assert len(recording) == 2430

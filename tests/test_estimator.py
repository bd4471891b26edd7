"""The artifact scores as the trained module does, in chunks too, and refuses what does not fit it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import gatesight.estimator
from data_modules.recording import Document, RecordingDataModule
from gatesight import GateSightError
from gatesight.artifact import CARD, CONFIG, WEIGHTS
from gatesight.estimator import Estimator
from gatesight.statistics import Moments
from models.estimator_module import EstimatorModule
from tests.synthetic import TINY, layout


def module(folds: list[str], window: int = 6) -> EstimatorModule:
    """A module with parameters and standardisation as wild as recordings can be: constant and hardly varying inputs."""
    made = EstimatorModule(TINY.to_dict(), ["a", "b"], folds, {"model": "m"}, window=window)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in made.bank.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    moments = Moments.of(torch.cat([signals(500).flatten(1), torch.rand(500, 3, generator=generator)], dim=1).double())
    for fold in range(len(folds)):
        made.bank.shift[fold], made.bank.scale[fold] = moments.standardisation()
    made.gate.copy_(torch.rand(4, generator=generator))
    return made.eval()


def signals(n: int, seed: int = 0) -> torch.Tensor:
    made = torch.randn(n, 12, 6, 3, generator=torch.Generator().manual_seed(seed))
    made[:, 0, 0, 0] = 0.1  # constant
    made[:, 3, 1, 1] = -7e-5 * (1 + 1e-3 * made[:, 3, 1, 1])  # a slow head's decay
    made[:, 5, 2, 2] = 300 + 1e-2 * made[:, 5, 2, 2].round()  # mean and deviation four digits and more apart
    made[:, 7, 0, 1] = -1e-6 * made[:, 7, 0, 1].exp()
    return made


@pytest.mark.parametrize("window", [1, 6, 9, 40])
def test_export_is_equal(tmp_path: Path, window: int) -> None:
    trained = module(["a", "b", "none"], window)
    trained.estimator().save_pretrained(tmp_path)
    loaded = Estimator.from_pretrained(tmp_path)
    document = Document(signals(300, seed=1), torch.zeros(4, 2, 300), 0, 0)
    trained.folds, trained.corpora = ["none", "none", "none"], ["a", "b"]  # score with the fold that is exported
    trained.fold_of = lambda corpus: 2  # type: ignore[method-assign]
    with torch.no_grad():
        expected = trained.scores(document, "gatesight")
    found = loaded.score(document.signals)
    assert found.shape == (4, 2, 300)
    assert found.dtype == torch.float32
    assert (found - expected).abs().max() <= 1e-5
    assert found.std() > 0.01
    assert torch.equal(loaded.gate, trained.gate)


def test_the_same_run_exports_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        module(["none"]).estimator().save_pretrained(tmp_path / name)
    for file in (WEIGHTS, CONFIG, CARD):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_a_saved_artifact_survives_loading_and_saving(tmp_path: Path) -> None:
    module(["none"]).estimator().save_pretrained(tmp_path / "one")
    Estimator.from_pretrained(tmp_path / "one").save_pretrained(tmp_path / "two")
    assert (tmp_path / "one" / WEIGHTS).read_bytes() == (tmp_path / "two" / WEIGHTS).read_bytes()
    assert json.loads((tmp_path / "one" / CONFIG).read_text()) == json.loads((tmp_path / "two" / CONFIG).read_text())


def test_chunks_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator, x = module(["none"]).estimator(), signals(500)
    whole = estimator.score(x)
    parts = torch.cat([estimator.score(x[a : a + 170], start=a, n=500) for a in range(0, 500, 170)], dim=-1)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-6)
    monkeypatch.setattr(gatesight.estimator, "CHUNK", 64)
    torch.testing.assert_close(estimator.score(x), whole, rtol=0, atol=1e-6)
    assert estimator.score(x[:0]).shape == (4, 2, 0)
    torch.testing.assert_close(estimator.score(x.half())[:, :, :10], estimator.score(x.half().float())[:, :, :10])


def test_signals_that_do_not_fit_are_refused() -> None:
    estimator = module(["none"]).estimator()
    with pytest.raises(GateSightError, match=r"expected \[m, 12, 6, 3\]"):
        estimator.score(torch.zeros(5, 11, 6, 3))
    with pytest.raises(GateSightError, match="at 8 of 10 do not fit"):
        estimator.score(torch.zeros(5, 12, 6, 3), start=8, n=10)


def test_another_model_is_refused() -> None:
    estimator = module(["none"]).estimator()
    estimator.check_model(TINY)
    with pytest.raises(GateSightError, match="made for another model: its value_heads is 6, the model's is 3"):
        estimator.check_model(layout(value_heads=3))


def edit(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**config, **changes}))


def test_damaged_artifacts_are_refused(tmp_path: Path) -> None:
    def fresh() -> Path:
        estimator.save_pretrained(tmp_path)
        return tmp_path

    estimator = module(["none"]).estimator()
    with pytest.raises(GateSightError, match=r"no artifact at '.*nothing'"):
        Estimator.from_pretrained(tmp_path / "nothing")
    with pytest.raises(GateSightError, match=f"no GateSight artifact: it lacks {CONFIG}"):
        Estimator.from_pretrained(tmp_path)
    (fresh() / WEIGHTS).unlink()
    with pytest.raises(GateSightError, match=f"it lacks {WEIGHTS}"):
        Estimator.from_pretrained(tmp_path)
    edit(fresh(), format=9)
    with pytest.raises(GateSightError, match="has format 9; this version reads format 1"):
        Estimator.from_pretrained(tmp_path)
    edit(fresh(), layout_hash="0" * 16)
    with pytest.raises(GateSightError, match="does not match its hash 0000"):
        Estimator.from_pretrained(tmp_path)
    edit(fresh(), layout={"gdn_layers": []})
    with pytest.raises(GateSightError, match="describes no layout"):
        Estimator.from_pretrained(tmp_path)
    edit(fresh(), window=3)
    with pytest.raises(GateSightError, match=r"is damaged: tensor '1.w1' has shape .* the layout asks for"):
        Estimator.from_pretrained(tmp_path)
    edit(fresh(), features={"signals": ["g", "beta", "v_norm"]})
    with pytest.raises(GateSightError, match="reads other features"):
        Estimator.from_pretrained(tmp_path)
    (fresh() / CONFIG).write_text("{")
    with pytest.raises(GateSightError, match="cannot be read"):
        Estimator.from_pretrained(tmp_path)
    (fresh() / WEIGHTS).write_bytes((tmp_path / WEIGHTS).read_bytes()[:-1] + b"x")
    with pytest.raises(GateSightError, match=f"{WEIGHTS} in .* is not the file that {CONFIG} describes"):
        Estimator.from_pretrained(tmp_path)
    tensors = {name: tensor for name, tensor in estimator._tensors().items() if name != "3.b2"}
    with pytest.raises(GateSightError, match=r"tensor '3.b2' is missing"):
        Estimator(TINY, 6, tensors)


def test_the_hub_out_of_reach_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(GateSightError, match=r"no artifact at 'owner/name': .* the hub answered"):
        Estimator.from_pretrained("owner/name")
    with pytest.raises(GateSightError, match="'owner/name' could not be uploaded"):
        module(["none"]).estimator().push_to_hub("owner/name")


def test_a_run_without_the_served_fold_is_not_exported() -> None:
    with pytest.raises(GateSightError, match="only the fold that never saw 'a'"):
        module(["a"]).estimator()


def test_gate_weights_come_from_the_recording(recording: Path) -> None:
    data = RecordingDataModule(str(recording))
    made = EstimatorModule(data.layout.to_dict(), data.corpora, data.folds, {})
    made.standardise(data)
    assert torch.equal(made.estimator().gate, data.statistics.gate_weights([0, 1, 2], data.layout))

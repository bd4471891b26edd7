"""Training: a resumed run equals an unbroken one, workers change nothing, and a held-out corpus stays out of its fold."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from lightning import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from data_modules.recording import RecordingDataModule
from gatesight import GateSightError
from models.estimator_module import DEFAULT, EstimatorModule, load_module
from tests.synthetic import CORPORA, write_recording

EPOCHS = 4


def fit(
    recording: Path, folder: Path, fold: str = "loco", num_workers: int = 0, resume: Path | None = None
) -> tuple[EstimatorModule, Trainer]:
    data = RecordingDataModule(str(recording), fold=fold, positions=30, batch_size=2, num_workers=num_workers)
    module = EstimatorModule(
        data.layout.to_dict(), data.corpora, data.folds, data.recording.manifest.provenance, window=6, hidden=8
    )
    checkpoints = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            accelerator="cpu",
            max_epochs=EPOCHS,
            check_val_every_n_epoch=2,
            num_sanity_val_steps=0,
            logger=False,
            callbacks=[checkpoints],
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
        )
        trainer.fit(module, data, ckpt_path=resume)
        trainer.test(module, data, verbose=False)
    return module, trainer


def parameters(module: EstimatorModule) -> dict[str, torch.Tensor]:
    return {name: value for name, value in module.state_dict().items() if "total" not in name}


def assert_equal(one: EstimatorModule, other: EstimatorModule) -> None:
    a, b = parameters(one), parameters(other)
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)
    assert one.results["methods"] == other.results["methods"]


@pytest.fixture(scope="module")
def unbroken(recording: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[EstimatorModule, Path, Trainer]:
    folder = tmp_path_factory.mktemp("unbroken")
    module, trainer = fit(recording, folder)
    return module, folder, trainer


@pytest.mark.parametrize(("epoch", "num_workers"), [(0, 0), (1, 0), (2, 0), (0, 2), (1, 2), (2, 2)])
def test_a_resumed_run_equals_an_unbroken_one(
    recording: Path, tmp_path: Path, unbroken: tuple[EstimatorModule, Path, Trainer], epoch: int, num_workers: int
) -> None:
    resumed, _ = fit(recording, tmp_path, num_workers=num_workers, resume=unbroken[1] / f"epoch={epoch}.ckpt")
    assert_equal(resumed, unbroken[0])


def test_workers_change_nothing(
    recording: Path, tmp_path: Path, unbroken: tuple[EstimatorModule, Path, Trainer]
) -> None:
    assert_equal(fit(recording, tmp_path, num_workers=2)[0], unbroken[0])


def test_a_held_out_corpus_never_reaches_its_fold(
    tmp_path: Path, unbroken: tuple[EstimatorModule, Path, Trainer]
) -> None:
    changed = CORPORA[1]
    perturbed, _ = fit(write_recording(tmp_path / "recording", scale={changed: 3.0}), tmp_path / "run")
    fold = perturbed.folds.index(changed)
    before, after = parameters(unbroken[0]), parameters(perturbed)
    for name in before:
        if name.startswith(("bank", "age_bank", "slow")):
            assert torch.equal(before[name][fold], after[name][fold]), name
            if name.startswith("bank.w"):
                other = perturbed.folds.index("none")
                assert not torch.equal(before[name][other], after[name][other])


def test_a_fold_trains_alike_with_and_without_the_others(
    recording: Path, tmp_path: Path, unbroken: tuple[EstimatorModule, Path, Trainer]
) -> None:
    alone, _ = fit(recording, tmp_path, fold="none")
    for together, single in zip(unbroken[0].bank.w1, alone.bank.w1, strict=True):
        torch.testing.assert_close(together[-1], single[0], rtol=1e-4, atol=1e-5)


def test_training_learns_and_reports_every_method(unbroken: tuple[EstimatorModule, Path, Trainer]) -> None:
    module, _, trainer = unbroken
    results = module.results
    assert set(results["methods"]) == set(DEFAULT)
    assert results["protocol"] == "leave-one-corpus-out"
    assert results["documents"] == dict.fromkeys(CORPORA[:3], 3)
    for found in results["methods"].values():
        assert set(found["by_corpus"]["overlap_at_10"]) == set(CORPORA[:3])
        assert set(found["by_layer"]["spearman"]) == {"3", "7"}
    assert float(trainer.callback_metrics["test/overlap_at_10"]) == pytest.approx(
        results["methods"]["gatesight"]["overall"]["overlap_at_10"], abs=1e-6
    )
    assert "test/older_first/coverage_at_10" in trainer.callback_metrics


def test_each_document_is_scored_by_the_fold_that_never_saw_it(unbroken: tuple[EstimatorModule, Path, Trainer]) -> None:
    module = unbroken[0]
    assert [module.folds[module.fold_of(c)] for c in range(3)] == list(CORPORA[:3])


def test_a_checkpoint_loads_without_pickle_and_scores_alike(
    recording: Path, unbroken: tuple[EstimatorModule, Path, Trainer]
) -> None:
    module, folder, _ = unbroken
    loaded = load_module(folder / f"epoch={EPOCHS - 1}.ckpt")
    signals = RecordingDataModule(str(recording)).test_set[0].signals
    assert torch.equal(loaded.estimator().score(signals), module.estimator().score(signals))


def test_a_damaged_checkpoint_is_one_sentence(tmp_path: Path, unbroken: tuple[EstimatorModule, Path, Trainer]) -> None:
    (tmp_path / "last.ckpt").write_bytes((unbroken[1] / "epoch=1.ckpt").read_bytes()[:1000])
    with pytest.raises(GateSightError, match=r"last.ckpt' cannot be loaded"):
        load_module(tmp_path / "last.ckpt")

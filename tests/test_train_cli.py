"""The entry points: every choice on the command line runs, leaves a whole run folder, and fails in one sentence."""

from __future__ import annotations

import csv
import errno
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.hydra_config import HydraConfig
from omegaconf import open_dict
from wandb.errors import UsageError

from gatesight import GateSightError
from gatesight.cli import entry_point
from gatesight.estimator import Estimator
from gatesight.tiny import MODEL, RECORDING
from models.estimator_module import DEFAULT
from models.predictors import OURS, PREDICTORS
from tests.synthetic import CORPORA, TINY, write_recording
from train import train

ROOT = Path(__file__).parents[1]
QUICK = ["model.path=null", "trainer=cpu", "trainer.max_epochs=1", "data.positions=20", "estimator.hidden=8"]


def run(folder: Path, *overrides: str) -> float:
    """``python train.py …`` without the start of a process."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        hydra = compose("train", overrides=[*QUICK, *overrides], return_hydra_config=True)
        cfg = compose("train", overrides=[*QUICK, *overrides])
    with open_dict(hydra):
        hydra.hydra.runtime.output_dir = str(folder)
    HydraConfig.instance().set_config(hydra)
    return train(cfg)


def cli(script: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, script, *overrides]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def source(recording: Path) -> str:
    return f"model.recording={recording}"


@pytest.mark.parametrize(
    ("override", "protocol", "corpora"),
    [
        ("window=9", "leave-one-corpus-out", 3),
        ("window=1", "leave-one-corpus-out", 3),
        ("fold=none", "in-sample", 3),
        ("fold=diverse_qa", "leave-one-corpus-out", 1),
        ("seed=7", "leave-one-corpus-out", 3),
        ("logger=wandb", "leave-one-corpus-out", 3),
    ],
)
def test_choices_run(
    tmp_path: Path, source: str, override: str, protocol: str, corpora: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    score = run(tmp_path, source, override)
    results = json.loads((tmp_path / "metrics.json").read_text())
    assert score == pytest.approx(results["methods"][OURS]["overall"]["overlap_at_10"], abs=1e-6)
    assert results["protocol"] == protocol
    assert len(results["documents"]) == corpora
    if override == "logger=wandb":
        assert list((tmp_path / "wandb").glob("offline-run-*"))


@pytest.mark.parametrize("experiment", sorted(path.stem for path in (ROOT / "conf/experiment").glob("*.yaml")))
def test_every_experiment_composes(experiment: str) -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", overrides=[f"experiment={experiment}"])
    assert cfg.estimator["_target_"].endswith("EstimatorModule")


@pytest.mark.parametrize("model", ["tiny", "qwen27b", "flash_next"])
@pytest.mark.parametrize("trainer", ["auto", "cpu", "gpu", "ddp"])
@pytest.mark.parametrize("logger", ["csv", "wandb", "tensorboard"])
def test_every_group_composes(model: str, trainer: str, logger: str) -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        cfg = compose("train", overrides=[f"model={model}", f"trainer={trainer}", f"logger={logger}"])
    assert cfg.data.model == model
    assert cfg.trainer["_target_"] == "lightning.Trainer"


def test_from_training_to_scores(tmp_path: Path, recording: Path) -> None:
    out = tmp_path / "run"
    trained = cli("train.py", *QUICK, f"model.recording={recording}", f"hydra.run.dir={out}")
    assert trained.returncode == 0, trained.stderr
    assert "GateSight" in trained.stdout
    assert f"python export.py run={out}" in trained.stdout.replace("\n", "")
    assert "Warning" not in trained.stderr
    for name in ("config.yaml", "metrics.json", "metrics.csv", "checkpoints/last.ckpt"):
        assert (out / name).is_file(), name
    for figure in ("by_corpus", "by_layer", "coverage"):
        assert (out / f"figures/{figure}.png").read_bytes().startswith(b"\x89PNG")
    with (out / "tables/by_corpus.csv").open() as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["corpus", *(PREDICTORS[name].title for name in DEFAULT)]
    assert [row[0] for row in rows[1:]] == list(CORPORA[:3])
    assert (out / "tables/overall.md").read_text().count("\n") == 2 + len(DEFAULT)

    exported = cli("export.py", f"run={out}", f"output={tmp_path / 'artifact'}")
    assert exported.returncode == 0, exported.stderr
    estimator = Estimator.from_pretrained(tmp_path / "artifact")
    assert estimator.score(torch.rand(5, 6, 3, 3)).shape == (2, 2, 5)
    assert estimator.info["training"]["corpora"] == list(CORPORA[:3])
    assert estimator.info["model"]["id"] == "simulated"
    assert "| GateSight |" in (tmp_path / "artifact/README.md").read_text()


def test_trained_estimators_are_measured_unchanged_on_another_recording(tmp_path: Path, source: str) -> None:
    trained = run(tmp_path / "run", source, "trainer.max_epochs=2")
    measure = ["fit=false", f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt"]
    assert run(tmp_path / "same", source, *measure) == pytest.approx(trained, abs=1e-6)

    longer = write_recording(tmp_path / "longer", corpora=(CORPORA[1], CORPORA[5]), documents=2, tokens=(300, 400))
    run(tmp_path / "other", f"model.recording={longer}", *measure)
    results = json.loads((tmp_path / "other/metrics.json").read_text())
    assert results["documents"] == {CORPORA[1]: 2, CORPORA[5]: 2}
    assert results["training_seconds"] is None

    with pytest.raises(GateSightError, match="give ckpt_path"):
        run(tmp_path / "x", source, "fit=false")
    foreign = write_recording(tmp_path / "foreign", TINY)
    with pytest.raises(GateSightError, match="measure them on a recording of their own model"):
        run(tmp_path / "x", f"model.recording={foreign}", *measure)


@pytest.mark.parametrize(
    ("override", "name"),
    [("window=1", "window"), ("seed=5", "seed"), ("fold=prose", "folds"), ("data.label=top", "label")],
)
def test_a_run_resumes_with_its_own_settings_only(tmp_path: Path, source: str, override: str, name: str) -> None:
    run(tmp_path / "run", source)
    with pytest.raises(GateSightError, match=f"another {name}"):
        run(tmp_path / "x", source, f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt", override)


def test_a_run_that_is_extended_goes_on_along_the_longer_schedule(tmp_path: Path, source: str) -> None:
    run(tmp_path / "run", source, "trainer.max_epochs=1")
    run(tmp_path / "on", source, "trainer.max_epochs=2", f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt")
    state = torch.load(tmp_path / "on/checkpoints/last.ckpt", weights_only=True)
    assert state["lr_schedulers"][0]["_last_lr"] == pytest.approx([0.0], abs=1e-12)


def test_planted_structure_is_found_and_age_alone_is_not_enough(tmp_path: Path) -> None:
    recording = write_recording(tmp_path / "recording", documents=6, tokens=(300, 400))
    full = ["trainer.max_epochs=12", "data.positions=500", "data.batch_size=1", "estimator.hidden=64"]
    run(tmp_path, f"model.recording={recording}", *full, "trainer.check_val_every_n_epoch=12")
    methods = json.loads((tmp_path / "metrics.json").read_text())["methods"]
    overlap = {name: found["overall"]["overlap_at_10"] for name, found in methods.items()}
    assert overlap[OURS] > 1.5 * max(value for name, value in overlap.items() if name != OURS)


@pytest.mark.parametrize(
    ("script", "overrides", "sentence"),
    [
        ("train.py", ["model=qwen27b"], "make one with `python record.py model=qwen27b`."),
        ("export.py", [], "run is missing: give run=… on the command line."),
        ("record.py", ["corpora=folder"], "corpora.path is missing: give corpora.path=… on the command line."),
        ("export.py", ["run=nowhere"], "'nowhere' is not the folder of a finished run: it lacks config.yaml"),
    ],
)
def test_an_error_is_one_sentence_and_code_1(tmp_path: Path, script: str, overrides: list[str], sentence: str) -> None:
    failed = cli(script, *overrides, f"hydra.run.dir={tmp_path}")
    assert failed.returncode == 1
    assert sentence in failed.stderr
    assert "Traceback" not in failed.stderr
    assert len(failed.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "override",
    "data.positions=0 data.batch_size=0 data.num_workers=-1 estimator.hidden=0 estimator.lr=-1 seed=-1 trainer.max_epochs=0".split(),
)
def test_numbers_out_of_range_are_named(tmp_path: Path, source: str, override: str) -> None:
    with pytest.raises(GateSightError, match=rf"^{override.replace('.', '[.]')}: at least \d is needed\.$"):
        run(tmp_path, source, override)


def test_what_ships_is_found_from_any_folder() -> None:
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        model = compose("train").model
    assert (model.path, model.recording) == (str(MODEL), str(RECORDING))


def test_a_recording_of_another_model_is_refused(tmp_path: Path, source: str) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "qwen3_5_text",
                "layer_types": ["linear_attention", "full_attention"],
                "hidden_size": 64,
                "num_attention_heads": 4,
                "num_key_value_heads": 2,
                "linear_num_value_heads": TINY.value_heads,
                "linear_num_key_heads": TINY.key_heads,
                "linear_value_head_dim": 64,
                "linear_key_head_dim": 64,
            }
        )
    )
    with pytest.raises(Exception, match="is of another model") as raised:
        run(tmp_path, source, f"model.path={tmp_path}")
    assert isinstance(raised.value.__cause__, GateSightError)


def test_wandb_without_an_account_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    @entry_point
    def main() -> None:
        raise UsageError("No API key configured.\nUse `wandb login` to log in.")

    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err == "error: W&B: No API key configured. (WANDB_MODE=offline needs no account.)\n"


def test_an_error_in_a_reading_process_is_one_sentence_too(
    tmp_path: Path, recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recording"
    shutil.copytree(recording, folder)
    (folder / "statistics.safetensors").unlink(missing_ok=True)
    (shard,) = folder.glob("*.parquet")
    content = bytearray(shard.read_bytes())
    content[1000:3000] = bytes(2000)
    shard.write_bytes(content)
    with pytest.raises(SystemExit):
        entry_point(run)(tmp_path / "run", f"model.recording={folder}", "data.num_workers=1")
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert line.startswith("error: ")
    assert shard.name in line
    assert "Traceback" not in line


def test_a_damaged_checkpoint_is_refused_before_anything_starts(tmp_path: Path, source: str) -> None:
    (tmp_path / "broken.ckpt").write_bytes(b"no checkpoint")
    with pytest.raises(GateSightError, match=r"broken.ckpt' cannot be loaded"):
        run(tmp_path, source, f"ckpt_path={tmp_path / 'broken.ckpt'}")


@pytest.mark.parametrize(
    ("code", "sentence"), [(errno.EROFS, "'/runs' cannot be written"), (errno.ENOSPC, "no space left on the disk")]
)
def test_a_folder_that_cannot_be_written_is_one_sentence(
    code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @entry_point
    def main() -> None:
        raise OSError(code, "as a library says it", "/runs/last.ckpt")

    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 1
    assert sentence in capsys.readouterr().err

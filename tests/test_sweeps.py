"""Sweeps: what W&B and Hydra are told really exists, and a multirun ends with one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from callbacks.sweep_summary import summary
from models.estimator_module import HEADLINE
from models.predictors import OURS
from tests.test_train_cli import QUICK, ROOT, cli

SWEEPS = sorted((ROOT / "conf/sweep").glob("*.yaml"))


def samples(parameter: dict[str, Any]) -> list[Any]:
    return parameter.get("values") or [parameter["min"], parameter["max"]]


@pytest.mark.parametrize("path", SWEEPS, ids=lambda path: path.stem)
def test_wandb_sweeps_name_real_keys_and_the_logged_metric(path: Path) -> None:
    sweep = yaml.safe_load(path.read_text())
    assert (ROOT / sweep["program"]).is_file()
    assert sweep["metric"] == {"name": HEADLINE, "goal": "maximize"}
    fixed = [word for word in sweep["command"] if not word.startswith("${")]
    assert sweep["command"][-1] == "${args_no_hyphens}"
    for end in (0, -1):
        chosen = {key: samples(parameter)[end] for key, parameter in sweep["parameters"].items()}
        with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
            cfg = compose("train", overrides=[*fixed, *(f"{key}={value}" for key, value in chosen.items())])
        for key, value in chosen.items():
            assert OmegaConf.select(cfg, key) == value


def test_the_offline_grid_searches_the_same_keys() -> None:
    grid = yaml.safe_load((ROOT / "conf/experiment/grid.yaml").read_text())
    sweep = yaml.safe_load((ROOT / "conf/sweep/estimator.yaml").read_text())
    assert grid["hydra"]["sweeper"]["params"].keys() == sweep["parameters"].keys()


def test_a_multirun_ends_with_a_table_of_what_differs(tmp_path: Path, recording: Path) -> None:
    result = cli(
        "train.py",
        "-m",
        *QUICK,
        "window=1,2",
        "estimator.lr=1e-3,4e-3",
        "fold=prose",
        f"model.recording={recording}",
        f"hydra.sweep.dir={tmp_path}",
    )
    assert result.returncode == 0, result.stderr
    table = (tmp_path / "summary.md").read_text().splitlines()
    assert table[0] == "| run | window | estimator.lr | overlap@10 | coverage@10 | ρ |"
    assert [line.split(" | ")[1:3] for line in table[2:]] == [
        ["1", "0.001"],
        ["1", "0.004"],
        ["2", "0.001"],
        ["2", "0.004"],
    ]
    for i, line in enumerate(table[2:]):
        overlap = json.loads((tmp_path / f"{i}/metrics.json").read_text())["methods"][OURS]["overall"]["overlap_at_10"]
        assert line.split(" | ")[3] == f"{100 * overlap:.1f}"
    assert "estimator.lr" in result.stdout


def test_unfinished_runs_stand_in_the_table(tmp_path: Path) -> None:
    assert summary(tmp_path) is None
    for i in (0, 1, 10, 2):
        (tmp_path / str(i)).mkdir()
        (tmp_path / f"{i}/config.yaml").write_text(f"window: {i}\ncopy: {i}\ndir: {tmp_path}/{i}/x\nseed: 0\n")
    table = summary(tmp_path)
    assert table is not None
    assert table.header[:2] == ["run", "window"]
    assert table.rows == [[str(i), str(i), "unfinished", "", ""] for i in (0, 1, 2, 10)]


def test_a_refused_run_does_not_end_the_sweep(tmp_path: Path, recording: Path) -> None:
    result = cli("train.py", "-m", *QUICK, "window=0,1", f"model.recording={recording}", f"hydra.sweep.dir={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert "window=0: the window must hold at least 1 GDN layer." in result.stderr
    rows = [line.split(" | ")[1:3] for line in (tmp_path / "summary.md").read_text().splitlines()[2:]]
    assert rows[0] == ["0", "unfinished"]
    assert rows[1][0] == "1"

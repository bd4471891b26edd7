"""Training as processes: killed and resumed it ends as if nothing had happened; two of them do what one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from models.estimator_module import load_module
from tests.test_train_cli import ROOT

EPOCHS = 4
SETTINGS = ["model.path=null", f"trainer.max_epochs={EPOCHS}", "data.positions=30", "data.batch_size=2"]
SETTINGS += ["estimator.hidden=8", "trainer.check_val_every_n_epoch=2"]
ONE, TWO = ["trainer=cpu"], ["trainer=ddp", "trainer.accelerator=cpu", "trainer.devices=2"]


def start(folder: Path, *overrides: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "train.py", *SETTINGS, *overrides, f"hydra.run.dir={folder}"]
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_SILENT": "true", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def finish(folder: Path, *overrides: str) -> dict[str, Any]:
    process = start(folder, *overrides)
    output = process.communicate(timeout=240)[0]
    assert process.returncode == 0, output.decode()
    return json.loads((folder / "metrics.json").read_text())


def kill_after_first_checkpoint(folder: Path, *overrides: str) -> Path:
    """Start a run and SIGKILL all its processes as soon as it has saved a checkpoint; the checkpoint."""
    process, checkpoint = start(folder, *overrides), folder / "checkpoints/last.ckpt"
    deadline = time.monotonic() + 120
    while not checkpoint.is_file() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (folder / "metrics.json").exists(), "the run was over before it could be killed"
    assert load_module(checkpoint).bank.w1[0].isfinite().all()
    return checkpoint


@pytest.mark.parametrize(
    ("logger", "processes"),
    [
        ("csv", ONE),
        pytest.param("wandb", ONE, marks=pytest.mark.slow),
        pytest.param("csv", TWO, marks=pytest.mark.slow),
        pytest.param("wandb", TWO, marks=pytest.mark.slow),
    ],
    ids=["csv", "wandb", "csv, 2 processes", "wandb, 2 processes"],
)
def test_a_killed_run_resumes_to_the_same_metrics(
    tmp_path: Path, recording: Path, logger: str, processes: list[str]
) -> None:
    options = [f"model.recording={recording}", f"logger={logger}", *processes]
    unbroken = finish(tmp_path / "unbroken", *options)
    checkpoint = kill_after_first_checkpoint(tmp_path / "killed", *options)
    resumed = finish(tmp_path / "resumed", *options, f"ckpt_path={checkpoint}")
    assert resumed["methods"] == unbroken["methods"]
    assert resumed["documents"] == unbroken["documents"]


def test_two_processes_train_and_measure_what_one_does(tmp_path: Path, recording: Path) -> None:
    one, two = (
        finish(tmp_path / name, f"model.recording={recording}", *processes)
        for name, processes in (("1", ONE), ("2", TWO))
    )
    assert one["documents"] == two["documents"]  # each document once
    for baseline in ("older_first", "newer_first", "slow_write"):
        for name, value in one["methods"][baseline]["overall"].items():
            assert two["methods"][baseline]["overall"][name] == pytest.approx(value, abs=1e-12)
    first, second = (load_module(tmp_path / name / "checkpoints/last.ckpt") for name in ("1", "2"))
    for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-5), name

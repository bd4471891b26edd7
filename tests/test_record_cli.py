"""``record.py`` as a user runs it: interrupted, resumed, over several workers, on bad input, on disks that are full."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatesight.recording.store import Recording
from gatesight.tiny import MODEL

ROOT = Path(__file__).parents[1]
WORDS = [
    "Nadia",
    "keeps",
    "the",
    "red",
    "key",
    "and",
    "Omar",
    "the",
    "blue",
    "one",
    "while",
    "the",
    "ferry",
    "to",
    "Lisbon",
    "leaves",
    "at",
    "nine",
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("text")
    for corpus in ("notes", "tales"):
        (folder / corpus).mkdir()
        for i in range(3):
            words = random.Random(f"{corpus}{i}").choices(WORDS, k=40)
            (folder / corpus / f"{i}.txt").write_text(" ".join(words))
    return folder


def command(text: Path, output: Path, *options: str) -> list[str]:
    settings = ["corpora=folder", f"corpora.path={text}", f"output={output}", "min_tokens=10", "tokens=24"]
    return [sys.executable, "record.py", *settings, *options]


def record(text: Path, output: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(text, output, *options), cwd=ROOT, capture_output=True, text=True, timeout=300)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refusal(result: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a failed run."""
    assert result.returncode == 1, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("error: ")
    return " ".join(result.stderr.split())


@pytest.fixture(scope="module")
def unbroken(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unbroken") / "recording"
    result = record(text, folder)
    assert result.returncode == 0, result.stderr
    assert "6 of 6 documents left to record; the whole takes" in " ".join(result.stdout.split())
    return folder


def test_a_recording_opens(unbroken: Path) -> None:
    recording = Recording(unbroken)
    assert recording.corpora == ["notes"] * 3 + ["tales"] * 3
    assert recording.manifest.provenance["model"] == "tiny"
    assert {path.name for path in unbroken.iterdir()} == {"recording.json", "shard-00000-of-00001.parquet"}
    assert all(document.utility.max() > 0 for document in recording)


def test_two_workers_give_the_same_bytes(text: Path, unbroken: Path, tmp_path: Path) -> None:
    result = record(text, tmp_path / "two", "workers=2")
    assert result.returncode == 0, result.stderr
    assert content(tmp_path / "two") == content(unbroken)


def test_a_worker_may_have_nothing_to_do(text: Path, tmp_path: Path) -> None:
    result = record(text, tmp_path / "one", "corpora.corpus=all", "documents=1", "workers=2")
    assert result.returncode == 0, result.stderr
    assert len(Recording(tmp_path / "one")) == 1


def test_a_models_missing_parts_are_named(text: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    (model / "chat_template.jinja").unlink()
    assert "has no chat template; record with chat=false" in refusal(
        record(text, tmp_path / "x", f"model.path={model}", "chat=true")
    )
    (model / "model.safetensors").unlink()
    assert "holds no weights" in refusal(record(text, tmp_path / "x", f"model.path={model}"))
    (model / "config.json").write_text("{")
    assert "config.json" in refusal(record(text, tmp_path / "x", f"model.path={model}"))


def test_sigterm_ends_a_run_at_once(text: Path, tmp_path: Path) -> None:
    run = subprocess.Popen(
        command(text, tmp_path / "x"), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while run.poll() is None and not list(tmp_path.glob("x/parts/*.parquet")):
        time.sleep(0.01)
    run.terminate()
    assert run.wait(timeout=20) == -signal.SIGTERM


def test_a_killed_run_resumes_to_the_same_bytes(text: Path, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    kills = 0
    for wait in (0.0, 0.4, 1.1):  # seconds after the first new part of this run
        before = len(list(folder.glob("parts/*.parquet")))
        run = subprocess.Popen(
            command(text, folder),
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while run.poll() is None and len(list(folder.glob("parts/*.parquet"))) <= before:
            time.sleep(0.01)
        time.sleep(wait)
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
            kills += 1
        run.wait()
        for path in folder.rglob("*.parquet"):  # whole files only, at any moment
            assert not path.name.startswith(".") or path.suffix == ".tmp"
    assert kills
    result = record(text, folder)
    assert result.returncode == 0, result.stderr
    assert content(folder) == content(unbroken)


def test_a_deleted_shard_is_made_again(text: Path, unbroken: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "recording.json").write_bytes((unbroken / "recording.json").read_bytes())
    assert record(text, folder).returncode == 0
    assert content(folder) == content(unbroken)


def test_another_recording_in_the_folder_is_refused_and_left_alone(text: Path, unbroken: Path) -> None:
    before = content(unbroken)
    assert 'holds another recording (it has "seed": 0 where this one has "seed": 1)' in refusal(
        record(text, unbroken, "seed=1")
    )
    assert content(unbroken) == before


def test_a_document_without_text_is_left_out_and_reported(text: Path, tmp_path: Path) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "empty.txt").write_text(" \n")
    (tmp_path / "mixed" / "short.txt").write_text("Omar leaves")
    (tmp_path / "mixed" / "good.txt").write_text(" ".join(WORDS * 3))
    result = record(tmp_path, tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert "mixed: 1 documents (left out: 1 empty, 1 under 10 tokens)" in " ".join(result.stdout.split())
    (tmp_path / "mixed" / "good.txt").unlink()
    assert "corpus 'mixed' has no document to record (1 empty, 1 under 10 tokens)" in refusal(
        record(tmp_path, tmp_path / "other")
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["model.path=/no/such/model"], "no model at '/no/such/model'"),
        (["corpora.path=/no/such/text"], "corpora.path='/no/such/text' is no folder"),
        (["tokens=0"], "tokens=0"),
        (["workers=0"], "workers=0"),
    ],
)
def test_bad_options_are_one_sentence(text: Path, tmp_path: Path, options: list[str], sentence: str) -> None:
    assert sentence in refusal(record(text, tmp_path / "out", *options))
    assert not (tmp_path / "out").exists()


@contextmanager
def tmpfs(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_keeps_what_is_done_and_resumes(text: Path, unbroken: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    with tmpfs(small, "size=200k"):
        assert "no space left on the disk" in refusal(record(text, small / "recording"))
        assert list(small.rglob("parts/*.parquet"))
        assert not list(small.rglob(".*.tmp"))
        assert not list(small.rglob("shard-*"))
        subprocess.run(["mount", "-o", "remount,size=16m", str(small)], check=True)
        assert record(text, small / "recording").returncode == 0
        assert content(small / "recording") == content(unbroken)


def test_a_folder_that_cannot_be_written_is_refused_at_once(text: Path, tmp_path: Path) -> None:
    with tmpfs(tmp_path / "locked", "ro,size=1m"):
        assert "cannot be written" in refusal(record(text, tmp_path / "locked" / "recording"))

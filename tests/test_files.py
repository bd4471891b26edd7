"""Files appear whole or not at all."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gatesight import GateSightError
from gatesight.files import atomic_path, atomic_write, storage_error


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    atomic_write(path, "old")
    with pytest.raises(RuntimeError), atomic_path(path) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_file_in_the_way_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GateSightError, match="could not be written"):
        atomic_write(tmp_path / "file" / "x", "content")


@pytest.mark.parametrize(("code", "words"), [(errno.ENOSPC, "no space left"), (errno.EROFS, "cannot be written")])
def test_the_sentence_says_what_to_do(code: int, words: str) -> None:
    assert words in str(storage_error(Path("/somewhere/x"), OSError(code, "")))

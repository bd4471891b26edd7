"""Fixtures shared by the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.synthetic import write_recording


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small synthetic recording: 3 corpora of 3 documents."""
    return write_recording(tmp_path_factory.mktemp("recording"))

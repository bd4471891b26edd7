"""Files appear whole or not at all: written under a temporary name, flushed to disk, then renamed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gatesight.errors import GateSightError


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary sibling of ``path`` to write to; renamed onto ``path`` on success, removed on failure.

    Raises:
        GateSightError: the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(path)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def atomic_write(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def storage_error(path: Path, error: OSError) -> GateSightError:
    """The sentence for an ``OSError`` met while writing ``path``."""
    if error.errno == errno.ENOSPC:
        return GateSightError(
            f"no space left on the disk for '{path}': free some, then run the same command again; it resumes."
        )
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return GateSightError(
            f"'{path.parent}' cannot be written or read: choose another folder or change its permissions."
        )
    return GateSightError(f"'{path}' could not be written: {error.strerror or error}.")

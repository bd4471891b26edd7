"""What the entry points share: an error is one sentence, the console is calm, every run folder has its own name."""

from __future__ import annotations

import errno
import logging
import math
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any
from uuid import uuid4

import torch
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, MissingMandatoryValue, OmegaConf
from rich.console import Console
from rich.markup import escape

from gatesight.errors import GateSightError
from gatesight.files import storage_error

OmegaConf.register_new_resolver("run_id", lambda: uuid4().hex[:6], use_cache=True, replace=True)
OmegaConf.register_new_resolver("package", lambda path: str(Path(__file__).parent / path), replace=True)
# not Lightning's "auto": Apple's GPUs have no float64, which the measures need
OmegaConf.register_new_resolver("accelerator", lambda: "cuda" if torch.cuda.is_available() else "cpu", replace=True)


SENTENCE = "GateSightError: "
"""What precedes the sentence in the traceback that other processes send of it."""
STORAGE = (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EPERM)
"""Errors of a full disk and of a folder that cannot be written."""


def entry_point(main: Callable[..., Any]) -> Callable[..., Any]:
    """Print a :class:`GateSightError` as its sentence and leave with code 1, without a traceback; in a multirun, return NaN."""

    @wraps(main)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return main(*args, **kwargs)
        except Exception as error:
            known = _known(error)
            if known is None:
                raise
            Console(stderr=True).print(f"[bold red]error:[/bold red] {escape(str(known))}", soft_wrap=True)
            if _in_multirun():
                return math.nan  # the other runs go on; the summary shows this one as unfinished
            sys.exit(1)

    return run


def _in_multirun() -> bool:
    return HydraConfig.initialized() and HydraConfig.get().mode == RunMode.MULTIRUN


def at_least(minimum: int, cfg: DictConfig, key: str) -> None:
    """Raise :class:`GateSightError` if the value of ``key`` is smaller; ``null`` is let pass."""
    value = OmegaConf.select(cfg, key)
    if value is not None and not isinstance(value, (int, float)):
        raise GateSightError(f"{key}={value}: a number is needed.")
    if value is not None and value < minimum:
        raise GateSightError(f"{key}={value}: at least {minimum} is needed.")


def _known(error: BaseException | None) -> GateSightError | None:
    """The user's error behind an exception: Hydra wraps what a constructor raises, and libraries write files too."""
    while error is not None and SENTENCE not in str(error) and not isinstance(error, GateSightError):
        if isinstance(error, OSError) and error.filename and error.errno in STORAGE:
            return storage_error(Path(str(error.filename)), error)
        if isinstance(error, MissingMandatoryValue):
            return GateSightError(f"{error.full_key} is missing: give {error.full_key}=… on the command line.")
        if isinstance(error, ModuleNotFoundError):  # an extra, such as a logger's
            return GateSightError(str(error).splitlines()[0])
        if type(error).__module__.startswith("wandb"):
            return GateSightError(f"W&B: {str(error).splitlines()[0]} (WANDB_MODE=offline needs no account.)")
        error = error.__cause__
    return None if error is None else GateSightError(str(error).rsplit(SENTENCE, 1)[-1].strip().splitlines()[0])


def _calm() -> None:
    """Keep Lightning's device reports and tuning tips out of the console; warnings of ours and of torch stay."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=name)


_calm()  # at import, since the processes that a launcher spawns import the entry point anew, but do not run it

"""What a recording states of its origin: the model and its exact weights, the text, the settings, the versions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig

import gatesight
from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout
from gatesight.recording.corpora import TextDocument
from gatesight.recording.plan import digest
from gatesight.recording.store import Manifest, dimensions


def make_manifest(model: Any, documents: Sequence[TextDocument], rollouts: dict[str, Any], packed: bool) -> Manifest:
    """The manifest of a recording that is to be made.

    Args:
        model: ``name``, ``path``, ``revision`` and ``dtype`` of the model, as configured.
        documents: what is recorded.
        rollouts: ``continuations``, ``tokens``, ``seed`` and ``chat`` of the recorder.
        packed: how arrays are stored.

    Raises:
        GateSightError: there is no such model, or it is no GDN/attention hybrid.
    """
    try:
        config = AutoConfig.from_pretrained(model.path, revision=model.revision)
    except (OSError, ValueError) as error:
        raise GateSightError(
            f"no model at '{model.path}' ({str(error).splitlines()[0]}): give a folder or a hub id as model.path."
        ) from error
    layout = HybridLayout.from_config(config)
    folder = Path(model.path)
    provenance = {
        "model": model.name if folder.is_dir() else model.path,
        "revision": weights_digest(folder) if folder.is_dir() else config._commit_hash,
        "dtype": model.dtype,
        "documents": len(documents),
        "text": digest(documents),
        **rollouts,
        "versions": {
            "gatesight": gatesight.__version__,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
    }
    return Manifest(layout, dimensions(layout, rollouts["continuations"], rollouts["tokens"]), provenance, packed)


def weights_digest(folder: Path) -> str:
    """16 hex digits of all weights of a local model."""
    total = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            while chunk := file.read(1 << 24):
                total.update(chunk)
    return total.hexdigest()[:16]

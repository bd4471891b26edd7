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


def describe_model(model: Any) -> tuple[HybridLayout, dict[str, Any]]:
    """Layout and identity of a model, given its configured ``name``, ``path``, ``revision`` and ``dtype``.

    Raises:
        GateSightError: there is no such model, or it is no GDN/attention hybrid.
    """
    try:
        config = AutoConfig.from_pretrained(model.path, revision=model.revision)
    except (OSError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise GateSightError(
            f"no model at '{model.path}' ({reason}): give a folder or a hub id as model.path."
        ) from error
    folder = Path(model.path)
    identity = {
        "model": model.name if folder.is_dir() else model.path,
        "revision": model_digest(folder) if folder.is_dir() else config._commit_hash,
        "dtype": model.dtype,
    }
    return HybridLayout.from_config(config), identity


def make_manifest(
    layout: HybridLayout,
    identity: dict[str, Any],
    documents: Sequence[TextDocument],
    rollouts: dict[str, Any],
    packed: bool,
) -> Manifest:
    """The manifest of a recording that is to be made.

    Args:
        layout: the model's layout.
        identity: as :func:`describe_model` gives it.
        documents: what is recorded.
        rollouts: ``continuations``, ``tokens``, ``seed`` and ``chat`` of the recorder.
        packed: how arrays are stored.
    """
    provenance = {
        **identity,
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


def model_digest(folder: Path) -> str:
    """16 hex digits of all files of a local model that fix what it computes: weights, config, sampling defaults, tokenizer.

    Raises:
        GateSightError: there are no weights.
    """
    weights = sorted(path for kind in ("*.safetensors", "*.bin") for path in folder.glob(kind))
    if not weights:
        raise GateSightError(
            f"'{folder}' holds no weights (.safetensors or .bin): copy them there, or give another model.path."
        )
    settings = sorted(path for kind in ("*.json", "*.jinja", "*.model", "*.txt") for path in folder.glob(kind))
    total = hashlib.sha256()
    for path in (*weights, *settings):
        total.update(f"{path.name}\0".encode())
        with path.open("rb") as file:
            while chunk := file.read(1 << 24):
                total.update(chunk)
    return total.hexdigest()[:16]

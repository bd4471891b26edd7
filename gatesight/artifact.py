"""The artifact: a folder of safetensors, JSON and a model card that serving loads; no pickle, no code."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from gatesight.errors import GateSightError
from gatesight.files import atomic_write

FORMAT = 1
WEIGHTS = "estimator.safetensors"
CONFIG = "gatesight.json"
CARD = "README.md"


def write_artifact(folder: Path, tensors: dict[str, torch.Tensor], config: dict[str, Any]) -> None:
    """Write the folder; the config, which makes it complete, last.

    Raises:
        GateSightError: the disk is full or the folder cannot be written.
    """
    weights = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    config = {"format": FORMAT, **config, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    atomic_write(folder / WEIGHTS, weights)
    atomic_write(folder / CARD, model_card(config))
    atomic_write(folder / CONFIG, json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def read_artifact(source: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Tensors and config of a folder or hub id.

    Raises:
        GateSightError: nothing is there, it has another format, or its files do not belong together.
    """
    folder = _folder(str(source))
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        weights = (folder / WEIGHTS).read_bytes()
    except FileNotFoundError as error:
        missing = Path(str(error.filename)).name
        raise GateSightError(
            f"'{source}' is no GateSight artifact: it lacks {missing}; python export.py makes one."
        ) from None
    except (OSError, ValueError) as error:
        raise GateSightError(f"the artifact at '{source}' cannot be read: {error}.") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        found = config.get("format") if isinstance(config, dict) else None
        raise GateSightError(f"the artifact at '{source}' has format {found}; this version reads format {FORMAT}.")
    if hashlib.sha256(weights).hexdigest() != config.get("weights_sha256"):
        raise GateSightError(f"{WEIGHTS} in '{source}' is not the file that {CONFIG} describes: export it anew.")
    try:
        return load_file(folder / WEIGHTS), config
    except SafetensorError as error:
        raise GateSightError(f"{WEIGHTS} in '{source}' cannot be read: {error}.") from error


def push_artifact(folder: Path, repo_id: str, private: bool) -> str:
    """Upload an artifact folder to the hub; returns its address.

    Raises:
        GateSightError: the hub cannot be reached or refuses.
    """
    from httpx import HTTPError
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OfflineModeIsEnabled

    try:
        api = HfApi()
        api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message="Upload GateSight estimator")
    except (
        HfHubHTTPError,
        HFValidationError,
        LocalTokenNotFoundError,
        OfflineModeIsEnabled,
        HTTPError,
        OSError,
    ) as error:
        raise GateSightError(
            f"'{repo_id}' could not be uploaded ({type(error).__name__}): check the name, the network and `hf auth login`."
        ) from error
    return f"https://huggingface.co/{repo_id}"


def _folder(source: str) -> Path:
    """The local folder of an artifact; a hub id is downloaded to the cache."""
    if Path(source).exists() or source.count("/") != 1 or source.startswith((".", "/", "~")):
        if not Path(source).is_dir():
            raise GateSightError(f"no artifact at '{source}': there is no such folder; python export.py makes one.")
        return Path(source)
    from httpx import HTTPError
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(source, allow_patterns=[WEIGHTS, CONFIG, CARD]))
    except (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        HTTPError,
        OSError,
    ) as error:
        raise GateSightError(
            f"no artifact at '{source}': there is no such folder, and the hub answered {type(error).__name__}."
        ) from error


def model_card(config: dict[str, Any]) -> str:
    """The model card in Markdown, from the artifact's config alone."""
    layout, training, model = config["layout"], config["training"], config["model"]
    shape = f"{len(layout['attention_layers'])} attention layers × {layout['kv_heads']} KV heads"
    rows = [
        f"| {row['method']} | {100 * row['overlap_at_10']:.1f} | {100 * row['coverage_at_10']:.1f} | {row['spearman']:.3f} |"
        for row in config["metrics"].get("methods", [])
    ]
    table = ["| method | overlap@10 | coverage@10 | Spearman ρ |", "|---|---:|---:|---:|", *rows] if rows else []
    return "\n".join(
        [
            "---",
            "library_name: gatesight",
            "license: apache-2.0",
            "tags: [kv-cache, kv-cache-eviction, gated-deltanet, long-context]",
            *([f"base_model: {model['id']}"] if "/" in model["id"] and not Path(model["id"]).exists() else []),
            "---",
            f"# GateSight estimator for {model['name']}",
            "",
            f"Predicts, for every entry of the KV cache, how much its removal would change the model's own continuations. {shape}, "
            f"an MLP each, reading the write gate β, the log-decay g and ‖v‖ of up to {config['window']} Gated DeltaNet layers before "
            "the attention layer, and the entry's age.",
            "",
            "```python",
            "import gatesight",
            "",
            'estimator = gatesight.Estimator.from_pretrained("<this folder or hub id>")',
            "scores = estimator.score(signals)  # [n, G, V, 3] -> [L, H, n], higher is kept first",
            "```",
            "",
            f"- model: `{model['id']}`, revision `{model['revision']}`, layout `{config['layout_hash']}`",
            f"- label: {config['label']}",
            f"- trained on: {', '.join(training['corpora'])} ({training['documents']} documents, seed {training['seed']})",
            f"- made by: {', '.join(f'{name} {version}' for name, version in config['versions'].items())}",
            "",
            *(
                [
                    f"Measured {config['metrics']['protocol']}, {config['metrics']['documents']} documents:",
                    "",
                    *table,
                    "",
                ]
                if table
                else []
            ),
        ]
    )

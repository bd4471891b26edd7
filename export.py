"""Export the estimator of a finished run as an artifact: ``python export.py run=runs/<run> [output=…] [push=owner/name]``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import hydra
import rich
import torch
from omegaconf import DictConfig, OmegaConf

import gatesight
from gatesight.cli import entry_point
from gatesight.errors import GateSightError
from gatesight.labels import LABELS
from models.estimator_module import EstimatorModule, load_module
from models.predictors import PREDICTORS


def read_run(run: Path) -> tuple[EstimatorModule, dict[str, Any], dict[str, Any]]:
    """Module, config and metrics of a finished run.

    Raises:
        GateSightError: the folder is not one of a finished run.
    """
    for name in ("config.yaml", "metrics.json", "checkpoints/last.ckpt"):
        if not (run / name).is_file():
            raise GateSightError(
                f"'{run}' is not the folder of a finished run: it lacks {name}; python train.py makes one."
            )
    config = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    metrics = json.loads((run / "metrics.json").read_text(encoding="utf-8"))
    return load_module(run / "checkpoints/last.ckpt"), config, metrics  # type: ignore[return-value]


def artifact_info(module: EstimatorModule, config: dict[str, Any], metrics: dict[str, Any]) -> dict[str, Any]:
    """What the artifact states beside the weights: the model, the label, the training and how well it did."""
    provenance, model, label = module.hparams["provenance"], config["model"], LABELS[config["data"]["label"]].__name__
    documents = sum(metrics["documents"].values())  # a run with the served fold is measured on all it was trained on
    measures = ("overlap_at_10", "coverage_at_10", "spearman")
    methods = [
        {"method": PREDICTORS[key].title, **{name: found["overall"][name] for name in measures}}
        for key, found in metrics["methods"].items()
    ]
    return {
        "model": {
            "name": model["name"],
            "id": str(provenance.get("model", model["name"])),
            "revision": provenance.get("revision"),
        },
        "label": f"{label} of U, per attention layer and KV head; U: largest leave-one-out change of the attention output over sampled continuations",
        "training": {
            "corpora": module.corpora,
            "documents": documents,
            "seed": module.hparams["seed"],
            "recording": provenance,
        },
        "metrics": {
            "protocol": metrics["protocol"],
            "documents": documents,
            "methods": methods,
        },
        "versions": {"gatesight": gatesight.__version__, "torch": torch.__version__},
    }


@hydra.main(version_base="1.3", config_path="conf", config_name="export")
@entry_point
def main(cfg: DictConfig) -> None:
    module, config, metrics = read_run(Path(cfg.run))
    estimator = module.estimator(artifact_info(module, config, metrics))
    estimator.save_pretrained(cfg.output)
    rich.print(f"artifact: {cfg.output}")
    if cfg.push:
        rich.print(f"uploaded: {estimator.push_to_hub(cfg.push)}")


if __name__ == "__main__":
    main()

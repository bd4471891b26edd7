"""One table over all runs of a multirun: what differs between them, and what came out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import rich
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf

from callbacks.tables import HEADLINES, Table, figure, heading
from gatesight.files import atomic_write
from models.predictors import OURS


class SweepSummary(Callback):
    """Writes ``summary.md`` and ``summary.csv`` into a multirun's folder and prints them when its last run is over."""

    def on_multirun_end(self, config: DictConfig, **_: Any) -> None:
        folder = Path(config.hydra.sweep.dir)
        table = summary(folder)
        if table is None:
            return
        atomic_write(folder / "summary.md", table.markdown())
        atomic_write(folder / "summary.csv", table.csv())
        rich.print("", table.rich(), f"\nruns  {folder}")


def summary(folder: Path) -> Table | None:
    """A line a run, in order of their numbers, unfinished ones too; ``None`` if there is no run."""
    runs = sorted((p.parent for p in folder.glob("*/config.yaml")), key=lambda run: (len(run.name), run.name))
    if not runs:
        return None
    configs = [_flat(OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))) for run in runs]
    keys = [key for key in dict.fromkeys(k for c in configs for k in c) if _differs(key, configs, runs)]
    keys = [key for key in keys if not any(_same(key, other, configs) for other in keys[: keys.index(key)])]
    rows = [
        [run.name, *(_value(c.get(key, "")) for key in keys), *_outcome(run)]
        for run, c in zip(runs, configs, strict=True)
    ]
    return Table("summary", f"{len(runs)} runs", ["run", *keys, *map(heading, HEADLINES)], rows)


def _value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _flat(config: Any, prefix: str = "") -> dict[str, Any]:
    """``{"estimator.lr": 0.002, …}``."""
    if not isinstance(config, dict):
        return {prefix: config}
    items = (_flat(value, f"{prefix}.{key}" if prefix else str(key)) for key, value in config.items())
    return {key: value for item in items for key, value in item.items()}


def _differs(key: str, configs: list[dict[str, Any]], runs: list[Path]) -> bool:
    """Whether runs were given different values; paths into the runs' own folders differ by nature."""
    values = [str(config.get(key)) for config in configs]
    own = any(str(run) in value for run, value in zip(runs, values, strict=True))
    return not own and len(set(values)) > 1


def _same(key: str, other: str, configs: list[dict[str, Any]]) -> bool:
    """Whether a key only repeats another one, as ``estimator.window`` does ``window``."""
    return all(config.get(key) == config.get(other) for config in configs)


def _outcome(run: Path) -> list[str]:
    if not (run / "metrics.json").is_file():
        return ["unfinished", *[""] * (len(HEADLINES) - 1)]
    found = json.loads((run / "metrics.json").read_text(encoding="utf-8"))["methods"][OURS]["overall"]
    return [figure(name, found[name]) for name in HEADLINES]

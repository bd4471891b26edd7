"""The result of a run as tables: in the terminal, as CSV and Markdown, and whole in ``metrics.json``."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich
from lightning import Callback, LightningModule, Trainer
from rich import box
from rich.table import Table as RichTable

from gatesight.files import atomic_write
from models.estimator_module import EstimatorModule
from models.predictors import PREDICTORS

HEADLINES = ("overlap_at_10", "coverage_at_10", "spearman")
"""Measures that the terminal shows; the files have all."""
COLUMNS = 6
"""Predictors that a table of the terminal holds side by side; the files hold any number."""


@dataclass(frozen=True)
class Table:
    """A table of figures, each row led by a name."""

    name: str
    title: str
    header: list[str]
    rows: list[list[str]]

    def markdown(self) -> str:
        lines = [self.header, ["---", *["---:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

    def csv(self) -> str:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.header, *self.rows])
        return text.getvalue()

    def rich(self) -> RichTable:
        table = RichTable(
            title=self.title,
            title_justify="left",
            title_style="bold",
            box=box.SIMPLE_HEAD,
            padding=(0, 2, 0, 0),
            pad_edge=False,
            show_edge=False,
        )
        for i, column in enumerate(self.header):
            table.add_column(column, justify="right" if i else "left", style="bold" if i == 1 else "", no_wrap=True)
        for row in self.rows:
            table.add_row(*row)
        return table


def overall(results: dict[str, Any], measures: Sequence[str] | None = None) -> Table:
    """A line a predictor, with some measures or all: percent, and ρ."""
    methods = results["methods"]
    measures = measures or list(next(iter(methods.values()))["overall"])
    rows = [[PREDICTORS[m].title, *(figure(name, methods[m]["overall"][name]) for name in measures)] for m in methods]
    title = f"{sum(results['documents'].values())} documents, {results['protocol']}"
    return Table("overall", title, ["method", *(heading(name) for name in measures)], rows)


def by_group(results: dict[str, Any], group: str) -> Table:
    """Overlap@10 in percent by ``corpus`` or by attention ``layer``, a column a predictor."""
    found = {m: values[f"by_{group}"]["overlap_at_10"] for m, values in results["methods"].items()}
    names = next(iter(found.values()))
    rows = [[name, *(figure("overlap_at_10", values[name]) for values in found.values())] for name in names]
    title = {"corpus": "corpus", "layer": "attention layer"}[group]
    return Table(f"by_{group}", f"overlap@10 by {title}", [title, *(PREDICTORS[m].title for m in found)], rows)


def heading(measure: str) -> str:
    """``overlap@10`` of ``overlap_at_10``."""
    return "ρ" if measure == "spearman" else measure.replace("_at_", "@")


def figure(measure: str, value: float) -> str:
    """A value as tables show it: percent, but ρ as it is."""
    return f"{value:.3f}" if measure == "spearman" else f"{100 * value:.1f}"


class Tables(Callback):
    """Writes and prints the tables when the test ends.

    Args:
        folder: the run folder.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero and isinstance(pl_module, EstimatorModule):
            results = pl_module.results
            atomic_write(self.folder / "metrics.json", json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            for table in (overall(results), by_group(results, "corpus"), by_group(results, "layer")):
                atomic_write(self.folder / "tables" / f"{table.name}.md", table.markdown())
                atomic_write(self.folder / "tables" / f"{table.name}.csv", table.csv())

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Print once the progress bar is gone."""
        if stage == "test" and trainer.is_global_zero and isinstance(pl_module, EstimatorModule):
            results = pl_module.results
            rich.print(overall(results, HEADLINES).rich(), "")
            for group in ("corpus", "layer") if len(results["methods"]) <= COLUMNS else ():
                rich.print(by_group(results, group).rich(), "")
            for note in results["notes"]:
                rich.print(f"[dim]{note}[/dim]")

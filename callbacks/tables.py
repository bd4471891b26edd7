"""The result of a run as tables: in the terminal, as CSV and Markdown, and whole in ``metrics.json``."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich
from lightning import Callback, LightningModule, Trainer
from rich import box
from rich.table import Table as RichTable

from gatesight.files import atomic_write
from models.estimator_module import METHODS, EstimatorModule

MEASURES = {"overlap_at_10": "overlap@10", "coverage_at_10": "coverage@10", "spearman": "ρ"}
"""Measures of the overall table, and their names for readers."""


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


def tables(results: dict[str, Any]) -> list[Table]:
    """The tables of a result, as :class:`~models.estimator_module.EstimatorModule` leaves it: percent, and ρ."""
    methods = results["methods"]
    documents, protocol = sum(results["documents"].values()), results["protocol"]
    overall = [[METHODS[m], *(_figure(name, methods[m]["overall"][name]) for name in MEASURES)] for m in methods]
    found = [Table("overall", f"{documents} documents, {protocol}", ["method", *MEASURES.values()], overall)]
    for group, title in (("corpus", "corpus"), ("layer", "attention layer")):
        names = next(iter(methods.values()))[f"by_{group}"]["overlap_at_10"]
        rows = [
            [name, *(_figure("overlap_at_10", methods[m][f"by_{group}"]["overlap_at_10"][name]) for m in methods)]
            for name in names
        ]
        found.append(Table(f"by_{group}", f"overlap@10 by {title}", [title, *(METHODS[m] for m in methods)], rows))
    return found


def _figure(measure: str, value: float) -> str:
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
            for table in tables(results):
                atomic_write(self.folder / "tables" / f"{table.name}.md", table.markdown())
                atomic_write(self.folder / "tables" / f"{table.name}.csv", table.csv())

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Print once the progress bar is gone."""
        if stage == "test" and trainer.is_global_zero and isinstance(pl_module, EstimatorModule):
            for table in tables(pl_module.results):
                rich.print(table.rich(), "")
            for note in pl_module.results["notes"]:
                rich.print(f"[dim]{note}[/dim]")

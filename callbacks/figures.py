"""The result of a run as figures: overlap@10 by corpus and by layer, coverage over the kept fraction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning import Callback, LightningModule, Trainer
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gatesight.files import atomic_path
from gatesight.metrics import FRACTIONS, percent
from models.estimator_module import EstimatorModule
from models.predictors import OURS, PREDICTORS

STYLE = {"size": 9, "title": 11, "ink": "#222222", "grid": "#dddddd"}


def by_corpus(results: dict[str, Any]) -> Figure:
    """Horizontal dots: a corpus a line, a method a dot."""
    methods = results["methods"]
    corpora = list(methods[OURS]["by_corpus"]["overlap_at_10"])
    figure, axes = _figure(7.2, 1.5 + 0.36 * len(corpora), "Overlap@10 by corpus", results)
    for y, corpus in enumerate(corpora):
        values = [100 * methods[m]["by_corpus"]["overlap_at_10"][corpus] for m in methods]
        axes.plot([min(values), max(values)], [y, y], color=STYLE["grid"], lw=3, zorder=1, solid_capstyle="round")
    for method in methods:
        values = [100 * methods[method]["by_corpus"]["overlap_at_10"][corpus] for corpus in corpora]
        axes.scatter(values, range(len(corpora)), **_dots(method))
    axes.axvline(10, color="#999999", lw=1, ls=(0, (2, 3)), label="chance")
    axes.set_yticks(range(len(corpora)), [corpus.replace("_", " ") for corpus in corpora])
    axes.set_ylim(len(corpora) - 0.5, -0.5)
    axes.set_xlim(left=0)
    axes.set_xlabel("true top 10% found among the predicted top 10%, in percent")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=STYLE["grid"], lw=0.6)
    return _finish(figure, axes)


def by_layer(results: dict[str, Any]) -> Figure:
    """Lines over depth."""
    methods = results["methods"]
    layers = list(methods[OURS]["by_layer"]["overlap_at_10"])
    figure, axes = _figure(7.2, 3.8, "Overlap@10 by attention layer", results)
    for method in methods:
        values = [100 * methods[method]["by_layer"]["overlap_at_10"][layer] for layer in layers]
        axes.plot(range(len(layers)), values, **_line(method))
    axes.axhline(10, color="#999999", lw=1, ls=(0, (2, 3)), label="chance")
    axes.set_xticks(range(len(layers)), layers)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("attention layer")
    axes.set_ylabel("overlap@10, percent")
    axes.grid(axis="y", color=STYLE["grid"], lw=0.6)
    return _finish(figure, axes)


def coverage(results: dict[str, Any]) -> Figure:
    """Coverage over the kept fraction."""
    methods = results["methods"]
    figure, axes = _figure(7.2, 3.8, "Utility kept by the predicted top k, relative to the true top k", results)
    for method in methods:
        values = [100 * methods[method]["overall"][f"coverage_at_{percent(k)}"] for k in FRACTIONS]
        axes.plot([100 * k for k in FRACTIONS], values, **_line(method))
    axes.set_xscale("log")
    axes.set_xticks([100 * k for k in FRACTIONS], [percent(k) for k in FRACTIONS])
    axes.minorticks_off()
    axes.set_ylim(0, 100)
    axes.set_xlabel("k, percent of the entries")
    axes.set_ylabel("coverage@k, percent")
    axes.grid(color=STYLE["grid"], lw=0.6)
    return _finish(figure, axes)


class Figures(Callback):
    """Draws the figures when the test ends.

    Args:
        folder: where the PNG files go.
    """

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or not isinstance(pl_module, EstimatorModule):
            return
        for draw in (by_corpus, by_layer, coverage):
            with atomic_path(self.folder / f"{draw.__name__}.png") as path:
                draw(pl_module.results).savefig(path, format="png", dpi=160)


def _figure(width: float, height: float, title: str, results: dict[str, Any]) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=STYLE["title"], color=STYLE["ink"], fontweight="bold", pad=22)
    subtitle = f"{sum(results['documents'].values())} documents, {results['protocol']}"
    axes.text(0, 1.03, subtitle, transform=axes.transAxes, fontsize=STYLE["size"], color="#666666")
    return figure, axes


def _finish(figure: Figure, axes: Axes) -> Figure:
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color("#999999")
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=STYLE["size"], colors=STYLE["ink"])
    figure.legend(
        loc="outside lower center",
        ncols=min(7, len(axes.get_legend_handles_labels()[0])),
        frameon=False,
        fontsize=STYLE["size"],
        handletextpad=0.4,
        columnspacing=1.4,
    )
    return figure


def _dots(method: str) -> dict[str, Any]:
    return {**_style(method), "s": 52 if method == OURS else 30, "edgecolors": "white", "linewidths": 0.6}


def _line(method: str) -> dict[str, Any]:
    size = {"ms": 6, "lw": 2.4} if method == OURS else {"ms": 4.5, "lw": 1.3}
    return {**_style(method), **size, "mec": "white", "mew": 0.6}


def _style(method: str) -> dict[str, Any]:
    shown = PREDICTORS[method]
    return {
        "label": shown.title,
        "color": shown.colour,
        "marker": shown.marker,
        "zorder": 4 if method == OURS else 3,
    }

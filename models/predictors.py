"""The predictors that stand in a run's tables: the estimator, what else is learned, and the signals as they are (Tables 1 and 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout
from gatesight.methods import Method
from gatesight.methods.age import NewerFirst, OlderFirst
from gatesight.methods.window_mean import WindowMean

OURS = "gatesight"
AGE_MLP, RIDGE, BEST_CELL = "age_mlp", "ridge", "best_cell"


@dataclass(frozen=True)
class Predictor:
    """How a predictor is shown: its name in tables, and one colour and marker in all figures."""

    title: str
    colour: str
    marker: str


PREDICTORS = {
    OURS: Predictor("GateSight", "#1b6ca8", "o"),
    RIDGE: Predictor("ridge", "#7b4ea3", "P"),
    AGE_MLP: Predictor("age MLP", "#e08e0b", "s"),
    "older_first": Predictor("older first", "#7a7a7a", "^"),
    "newer_first": Predictor("newer first", "#b3b3b3", "v"),
    "slow_write": Predictor("slow write", "#3c8d5a", "D"),
    "slow_v_norm": Predictor("slow ‖v‖", "#8cc29f", "d"),
    "write": Predictor("β‖v‖", "#b5404a", "X"),
    "v_norm": Predictor("‖v‖", "#d9868d", "p"),
    "beta": Predictor("β", "#8c6d31", "<"),
    "forget": Predictor("−g", "#c7a76c", ">"),
    "retention": Predictor("retention", "#5f9ea0", "h"),
    BEST_CELL: Predictor("best cell*", "#111111", "*"),
}
"""In the order of the tables. The starred one is chosen on the documents that it is measured on: a ceiling, no competitor."""

LEARNED = (OURS, AGE_MLP, RIDGE, BEST_CELL)


def check(names: Sequence[str]) -> None:
    """Raises :class:`GateSightError` for a predictor that there is not, or when the estimator itself is not among them."""
    unknown = [name for name in names if name not in PREDICTORS]
    if unknown:
        raise GateSightError(f"no predictor is called {', '.join(unknown)}: choose from {', '.join(PREDICTORS)}.")
    if OURS not in names:
        raise GateSightError(f"estimator.predictors lacks '{OURS}', which the others are measured against.")


def native(name: str, layout: HybridLayout, window: int, slow: torch.Tensor) -> Method:
    """A predictor that is not learned.

    Args:
        name: a key of ``PREDICTORS`` that is not in ``LEARNED``.
        layout: the model's layout.
        window: GDN layers of a window.
        slow: ``[G, V]`` bool, the slow heads.
    """
    if name in ("older_first", "newer_first"):
        return (OlderFirst if name == "older_first" else NewerFirst)(layout)
    if name.startswith("slow_"):
        return WindowMean(layout, window, name.removeprefix("slow_"), slow)
    return WindowMean(layout, window, name)

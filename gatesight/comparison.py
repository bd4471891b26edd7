"""Several methods measured on the same documents: overall, by corpus and by layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from gatesight.metrics import CoverageAtK, OverlapAtK, RankingMeasure, Spearman


class Comparison(nn.Module):
    """Holds the measures of every method; sums are exact and are added up over ranks.

    Args:
        methods: keys of the methods.
        corpora: names of the corpora.
        layers: names of the attention layers.
    """

    def __init__(self, methods: Sequence[str], corpora: Sequence[str], layers: Sequence[Any]) -> None:
        super().__init__()
        self.methods, self.corpora, self.layers = list(methods), list(corpora), [str(layer) for layer in layers]
        size = (len(corpora), len(layers))
        self._measures: dict[str, list[RankingMeasure]] = {
            method: [OverlapAtK(*size), CoverageAtK(*size), Spearman(*size)] for method in methods
        }
        self._registered = nn.ModuleList([m for measures in self._measures.values() for m in measures])  # moves them

    def update(self, method: str, scores: torch.Tensor, utility: torch.Tensor, corpus: int) -> None:
        """Add a document: scores and raw utility ``[L, H, n]`` of the entries behind its prefix."""
        for measure in self._measures[method]:
            measure.update(scores, utility, corpus)

    def results(self) -> dict[str, Any]:
        """``{method: {"overall" | "by_corpus" | "by_layer": {measure: …}}}`` in plain Python; starts anew afterwards."""
        found = {method: self._collect(measures) for method, measures in self._measures.items()}
        for measures in self._measures.values():
            for measure in measures:
                measure.reset()
        return found

    def documents(self) -> dict[str, int]:
        """Documents seen of each corpus."""
        counts = next(iter(self._measures.values()))[0].compute()["documents"].reshape(-1).tolist()
        return {name: count for name, count in zip(self.corpora, counts, strict=True) if count}

    def _collect(self, measures: list[RankingMeasure]) -> dict[str, Any]:
        seen = self.documents()
        found: dict[str, Any] = {"overall": {}, "by_corpus": {}, "by_layer": {}}
        for measure in measures:
            names, values = measure.names(), measure.compute()
            for i, name in enumerate(names):
                overall, corpus, layer = (
                    values[key].reshape(-1, len(names))[:, i].tolist() for key in ("overall", "corpus", "layer")
                )
                found["overall"][name] = overall[0]
                by_corpus = dict(zip(self.corpora, corpus, strict=True))
                found["by_corpus"][name] = {key: value for key, value in by_corpus.items() if key in seen}
                found["by_layer"][name] = dict(zip(self.layers, layer, strict=True))
        return found

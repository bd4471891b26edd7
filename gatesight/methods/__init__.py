"""Methods: whatever ranks the entries of a context. One file, one idea, one ``score``."""

from __future__ import annotations

from typing import Protocol

import torch


class Method(Protocol):
    """Scores the entries of a context, before any question is known."""

    def score(self, signals: torch.Tensor) -> torch.Tensor:
        """``[n, G, V, 3]`` signals -> ``[L, H, n]`` float32 scores; higher is kept first."""

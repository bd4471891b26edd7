"""Hiding context entries from attention in training, so that the recurrent layers learn to work without them.

A language model of this size, left alone, gives all memory to its attention, even that of the last few words. Hiding the newest entries
moves local work into the recurrent layers; hiding most of the others makes their state worth keeping.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Hiding:
    """What is hidden from attention, drawn anew for every training row; a query's own entry never is."""

    recent: float = 0.0
    """Share of rows in which each query misses its newest entries."""
    recent_span: tuple[int, int] = (32, 256)
    """How many of them: log-uniform in this range."""
    scattered: float = 0.0
    """Share of rows in which entries are missing for all queries."""
    scattered_part: tuple[float, float] = (0.5, 0.9)
    """Which part of the entries: uniform in this range, in spans of up to 64."""

    def draw(self, rng: random.Random, length: int) -> tuple[int, Tensor]:
        """How many of the newest entries are hidden, and which entries are, bool ``[length]``."""
        newest, hidden = 0, torch.zeros(length, dtype=torch.bool)
        if rng.random() < self.recent:
            newest = round(math.exp(rng.uniform(*map(math.log, self.recent_span))))
        if rng.random() < self.scattered:
            part, position = rng.uniform(*self.scattered_part), 0
            while position < length:
                span = rng.randint(1, 64)
                if rng.random() < part:
                    hidden[position : position + span] = True
                position += span
        return newest, hidden


def visibility(newest: Tensor, hidden: Tensor) -> Tensor:
    """Which entries each query attends to, bool ``[B, 1, T, T]``, of int ``newest [B]`` and bool ``hidden [B, T]``."""
    position = torch.arange(hidden.shape[1], device=hidden.device)
    distance = position[:, None] - position
    seen = (distance > newest[:, None, None]) & ~hidden[:, None, :]
    return ((distance == 0) | ((distance > 0) & seen))[:, None]

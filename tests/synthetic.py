"""Small recordings with planted structure."""

from __future__ import annotations

from pathlib import Path

from gatesight import HybridLayout
from gatesight.recording.simulated import SimulatedRecording, regular_layout
from gatesight.tiny.corpora import NAMES as CORPORA

__all__ = ["CORPORA", "SMALL", "TINY", "layout", "write_recording"]


def layout(groups: int = 4, value_heads: int = 6, kv_heads: int = 2) -> HybridLayout:
    return regular_layout(groups, value_heads, kv_heads)


SMALL = layout(groups=2, value_heads=3)
TINY = layout()


def write_recording(
    folder: Path,
    shape: HybridLayout = SMALL,
    corpora: tuple[str, ...] = CORPORA[:3],
    documents: int = 3,
    tokens: tuple[int, int] = (60, 90),
    seed: int = 0,
    prefix: int = 2,
    packed: bool = False,
    scale: dict[str, float] | None = None,
) -> Path:
    """Write a simulated recording of ``documents`` documents a corpus, of a :func:`regular_layout`."""
    sizes = len(shape.attention_layers), shape.value_heads, shape.kv_heads
    return SimulatedRecording(*sizes, documents, tokens, corpora, seed, prefix, scale).write(folder, packed)

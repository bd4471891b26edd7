"""What ships with the package so that everything runs at once: a tiny hybrid model, nine small corpora, a small recording."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent

MODEL = _HERE / "model"
"""The embedded model: a ``Qwen3_5ForCausalLM`` of 8M parameters in bf16 with tokenizer, chat template and card."""

CORPORA = _HERE / "corpora"
"""The nine embedded corpora, one for each subset that the paper records; compressed text."""

RECORDING = _HERE / "recording"
"""A small recording of ``MODEL`` over ``CORPORA``: signals and utilities, in the store's format."""

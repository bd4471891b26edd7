"""Serving on transformers: evict from a prefilled cache and answer questions against what is left."""

from gatesight.hf.compaction import compact, fork
from gatesight.hf.context import CompactedContext

__all__ = ["CompactedContext", "compact", "fork"]

"""Serving on transformers: evict from a prefilled cache and answer questions against what is left."""

from gatesight.hf.compaction import compact
from gatesight.hf.context import CompactedContext

__all__ = ["CompactedContext", "compact"]

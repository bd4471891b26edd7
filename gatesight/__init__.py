"""GateSight: KV-cache eviction for hybrid LLMs, learned from the signals of their recurrent layers."""

from __future__ import annotations

from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout

__all__ = ["GateSightError", "HybridLayout"]
__version__ = "0.1.0"

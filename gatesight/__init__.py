"""GateSight: KV-cache eviction for hybrid LLMs, learned from the signals of their recurrent layers."""

from __future__ import annotations

from gatesight.budget import allocate
from gatesight.errors import GateSightError
from gatesight.estimator import Estimator
from gatesight.layout import HybridLayout
from gatesight.selection import select

__all__ = ["Estimator", "GateSightError", "HybridLayout", "allocate", "select"]
__version__ = "0.1.0"

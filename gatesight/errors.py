"""The one exception that users meet: a clear sentence about what is wrong, where, and what to do."""

from __future__ import annotations


class GateSightError(ValueError):
    """Bad input or an impossible request; its message is one sentence that the entry points print as it is."""

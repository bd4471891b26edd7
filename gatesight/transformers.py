"""What differs between the versions of transformers that GateSight runs on."""

from __future__ import annotations

import inspect

from transformers import PreTrainedModel


def cache_argument(model: PreTrainedModel) -> str:
    """The name of the cache in the model's ``forward`` and ``generate``: it was renamed to ``cache`` after 5.15."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"

"""What recording and serving on transformers share: forks of a cache, and what differs between versions."""

from __future__ import annotations

import copy
import inspect

import torch
from transformers import Cache, PreTrainedModel
from transformers.cache_utils import LinearAttentionCacheLayerMixin


def cache_argument(model: PreTrainedModel) -> str:
    """The name of the cache in the model's ``forward`` and ``generate``: it was renamed to ``cache`` after 5.15."""
    return "cache" if "cache" in inspect.signature(type(model).forward).parameters else "past_key_values"


def fork(cache: Cache, sequences: int = 1) -> Cache:
    """An independent continuation of ``cache`` for ``sequences`` questions; the original stays as it is.

    KV entries are shared until the fork grows (growing makes new tensors); recurrent states are written in place and copied.
    """
    child = copy.copy(cache)
    child.layers = [
        copy.deepcopy(x) if isinstance(x, LinearAttentionCacheLayerMixin) else copy.copy(x) for x in cache.layers
    ]
    if sequences > 1:
        child.reorder_cache(torch.zeros(sequences, dtype=torch.long))
    return child

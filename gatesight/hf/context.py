"""A context that is prefilled and compacted once and then answers any number of questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from gatesight.budget import allocate
from gatesight.errors import GateSightError
from gatesight.estimator import Estimator
from gatesight.hf.compaction import compact, compacted_attention
from gatesight.layout import HybridLayout
from gatesight.recording.taps import tapped_prefill
from gatesight.selection import select
from gatesight.transformers import cache_argument, fork


class CompactedContext:
    """The cache of a context, in which each question starts afresh.

    Example::

        context = CompactedContext(model, tokenizer(document, return_tensors="pt").input_ids)
        context.evict(Estimator.from_pretrained("artifact"), kept=0.3)
        answer = context.generate(tokenizer(question, return_tensors="pt").input_ids, max_new_tokens=32)

    Args:
        model: a GDN/attention hybrid.
        input_ids: ``[n]`` or ``[1, n]``, the context without any question.
    """

    def __init__(self, model: PreTrainedModel, input_ids: torch.Tensor) -> None:
        self.model = model
        self.layout = HybridLayout.from_config(model.config)
        self.input_ids = input_ids.reshape(1, -1).to(model.device)
        self.cache = DynamicCache(config=model.config)
        with torch.inference_mode(), tapped_prefill(model) as taps:
            model(self.input_ids, **{cache_argument(model): self.cache}, use_cache=True, logits_to_keep=1)
        self.signals = taps.signals()

    def evict(self, estimator: Estimator, kept: float, protected: int = 0, rule: str = "gate") -> list[torch.Tensor]:
        """Keep a fraction of the entries, the best by the estimator's scores, and free the others.

        Args:
            estimator: made for this model.
            kept: fraction of the entries behind the protected ones that is kept, over all layers.
            protected: leading entries that every layer and head keeps (a system prompt, say).
            rule: how the budget is shared out among layers, see :func:`gatesight.allocate`.

        Returns:
            The keep sets, as :func:`gatesight.select` gives them.

        Raises:
            GateSightError: the estimator was made for another model, or an argument is out of its range.
        """
        estimator.check_model(self.layout)
        n = len(self.signals)
        if not 0 <= protected <= n:
            raise GateSightError(f"protected={protected}: the context has {n} tokens.")
        budget = allocate(estimator.gate, n - protected, kept, rule)
        keep = select(estimator.score(self.signals), budget, protected)
        self.compact(keep)
        return keep

    def compact(self, keep: Sequence[torch.Tensor]) -> None:
        """Evict all but the keep sets (``L`` tensors ``[H, K_l]``); see :func:`gatesight.hf.compact`."""
        compact(self.cache, keep, self.layout)

    @property
    def kv_bytes(self) -> int:
        """Bytes of the KV entries that are left, over all attention layers."""
        layers = [self.cache.layers[i] for i in self.layout.attention_layers]
        return sum(x.nbytes for layer in layers for x in (layer.keys, layer.values))

    def generate(self, question_ids: torch.Tensor, **options: Any) -> torch.Tensor:
        """Answer questions of equal length: ``[b, q]`` token ids → ``[b, new]`` token ids.

        Options are those of ``model.generate``. Questions do not see each other, whatever their order.
        """
        questions = question_ids.reshape(-1, question_ids.shape[-1]).to(self.model.device)
        prompt = torch.cat([self.input_ids.expand(len(questions), -1), questions], dim=1)
        with compacted_attention(self.model):
            output = self.model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),  # or generate would take pad ids inside a context for padding
                **{cache_argument(self.model): fork(self.cache, len(questions))},
                **options,
            )
        return output[:, prompt.shape[1] :]

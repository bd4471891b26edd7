"""One document becomes one record: prefill, sampled continuations, their replay, and the exact utility of every entry."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Cache, DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from gatesight.errors import GateSightError
from gatesight.layout import HybridLayout
from gatesight.recording.corpora import TextDocument
from gatesight.recording.store import RecordedDocument
from gatesight.recording.taps import AttentionCall, decoder_layers, tapped_attention, tapped_prefill
from gatesight.transformers import cache_argument, fork
from gatesight.utility import utility

MAX_RECONSTRUCTION_ERROR = 0.05
"""Largest relative L2 error of the rebuilt attention output (Appendix H of the paper)."""


@dataclass(frozen=True)
class Continuations:
    """Sampled futures of a context."""

    tokens: torch.Tensor
    """``[M, T]`` ids, padded behind each row's end."""
    lengths: list[int]


class DocumentRecorder:
    """Records documents with one model; holds no state between documents.

    Args:
        model: a GDN/attention hybrid in evaluation mode.
        tokenizer: the model's tokenizer.
        continuations: M, sampled with the model's default sampling parameters (§2; the paper takes 4).
        tokens: longest continuation T (the paper takes 128).
        seed: with the document's id it fixes the samples.
        chat: put the document into a user turn of the chat template; the tokens before it are its prefix.

    Raises:
        GateSightError: the model is no GDN/attention hybrid.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        continuations: int = 4,
        tokens: int = 128,
        seed: int = 0,
        chat: bool = False,
    ) -> None:
        self.model, self.tokenizer, self.seed, self.chat = model, tokenizer, seed, chat
        self.continuations, self.tokens = continuations, tokens
        self.layout = HybridLayout.from_config(model.config)
        layers: Any = decoder_layers(model)
        self.w_o = {i: _output_slices(layers[i].self_attn.o_proj, self.layout) for i in self.layout.attention_layers}

    @torch.inference_mode()
    def record(self, document: TextDocument) -> RecordedDocument:
        """Record one document.

        Raises:
            GateSightError: the document has no text, or the rebuilt attention output is off by more than 5%.
        """
        prefix, ids = self.encode(document)
        context = torch.tensor([ids], device=self.model.device)
        cache = DynamicCache(config=self.model.config)
        with tapped_prefill(self.model) as taps:
            self._forward(context[:, :-1], cache)
            start = fork(cache, self.continuations)  # `generate` starts from a token: it takes the last one itself
            self._forward(context[:, -1:], cache)
        signals, gate = taps.signals(), taps.gate()
        continuations = self._sample(context, start, document.doc_id)
        worth, error = self._replay(continuations, fork(cache, self.continuations), len(ids), document.doc_id)
        return RecordedDocument(
            doc_id=document.doc_id,
            corpus=document.corpus,
            prefix=prefix,
            input_ids=np.asarray(ids, np.int32),
            signals=_float16(signals, document.doc_id),
            utility=worth.cpu().numpy(),
            mean_decay=signals[..., 1].mean(0).numpy(),
            gate_query=gate.mean(0).numpy(),
            gate_kv=gate.unflatten(-1, (self.layout.kv_heads, -1)).amax(-1).mean(0).numpy(),
            continuations=continuations.tokens.cpu().numpy().astype(np.int32),
            continuation_lengths=np.asarray(continuations.lengths, np.int32),
            reconstruction_error=np.asarray(error, np.float32),
        )

    def encode(self, document: TextDocument) -> tuple[int, list[int]]:
        """Length of the prefix, and the ids of prefix and document.

        Raises:
            GateSightError: nothing or a single token is left of the document.
        """
        before = ""
        if self.chat:
            turn = [{"role": "user", "content": document.text}]
            before, text, _ = str(self.tokenizer.apply_chat_template(turn, tokenize=False)).partition(
                document.text.strip()
            )
            if not text and document.text.strip():
                raise GateSightError(
                    f"document '{document.doc_id}': the chat template alters its text, so that its prefix cannot be told; record with chat=false."
                )
        prefix = self.tokenizer(before, add_special_tokens=False)["input_ids"] if before else []
        body = (
            self.tokenizer(document.text, add_special_tokens=not before)["input_ids"] if document.text.strip() else []
        )
        if len(body) < 2:
            raise GateSightError(
                f"document '{document.doc_id}' of corpus '{document.corpus}' has {len(body)} tokens behind its prefix of {len(prefix)}: "
                "at least 2 are needed; remove it or give it text."
            )
        return len(prefix), [*prefix, *body]

    def _forward(self, ids: torch.Tensor, cache: Cache) -> None:
        self.model(ids, **{cache_argument(self.model): cache}, use_cache=True, logits_to_keep=1)

    def _sample(self, context: torch.Tensor, cache: Cache, doc_id: str) -> Continuations:
        """Continuations of the context from a cache of all its tokens but the last."""
        digest = hashlib.sha256(f"{self.seed}/{doc_id}".encode()).digest()
        device = self.model.device
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            torch.manual_seed(int.from_bytes(digest[:8], "little", signed=True))
            sampled = self.model.generate(
                context.expand(self.continuations, -1),
                attention_mask=torch.ones_like(context).expand(self.continuations, -1),
                **{cache_argument(self.model): cache},
                do_sample=True,
                max_new_tokens=self.tokens,
                pad_token_id=self.model.generation_config.pad_token_id or 0,
            )[:, context.shape[1] :]
        end = self.model.generation_config.eos_token_id
        ends = torch.isin(
            sampled, torch.tensor(end if isinstance(end, list) else [-1 if end is None else end], device=device)
        )
        lengths = [int(row.nonzero()[0]) + 1 if row.any() else sampled.shape[1] for row in ends]
        padded = torch.zeros(self.continuations, self.tokens, dtype=torch.long, device=device)
        padded[:, : sampled.shape[1]] = sampled
        return Continuations(padded, lengths)

    def _replay(
        self, continuations: Continuations, cache: Cache, n: int, doc_id: str
    ) -> tuple[torch.Tensor, list[float]]:
        """``[n, L, H]`` utility U over all continuation tokens, and the reconstruction error of each attention layer."""
        longest = max(continuations.lengths)
        with tapped_attention(self.model) as calls:
            self._forward(
                continuations.tokens[:, :longest], cache
            )  # rows beyond a continuation's end are dropped below
        worth, errors = [], []
        for index in self.layout.attention_layers:
            layer, error = self._layer_utility(calls[index], self.w_o[index], continuations.lengths, n)
            if not error <= MAX_RECONSTRUCTION_ERROR:
                raise GateSightError(
                    f"document '{doc_id}': the attention output of layer {index}, rebuilt from its queries, keys and values, is off by "
                    f"{error:.1%} (at most {MAX_RECONSTRUCTION_ERROR:.0%}): the taps do not fit this model or version of transformers."
                )
            worth.append(layer)
            errors.append(error)
        return torch.stack(worth, dim=1), errors

    def _layer_utility(
        self, call: AttentionCall, w_o: torch.Tensor, lengths: list[int], n: int
    ) -> tuple[torch.Tensor, float]:
        """``[n, H]`` float32 utility in one layer, and the relative L2 error of its rebuilt output."""
        worth = torch.zeros(n, self.layout.kv_heads, device=call.query.device)
        off = scale = 0.0
        for m, rows in enumerate(lengths):
            seen = n + rows
            causal = torch.ones(rows, seen, dtype=torch.bool, device=worth.device).tril(n)
            for head in range(self.layout.kv_heads):
                group = slice(head * self.layout.group, (head + 1) * self.layout.group)
                key, value = call.key[m, head, :seen].float(), call.value[m, head, :seen].float()
                logits = call.query[m, group, :rows].float() @ key.T * call.scaling
                logits = logits.masked_fill_(~causal, -torch.inf)
                output = call.output[m, :rows, group].float().transpose(0, 1)
                off += float((logits.softmax(-1) @ value - output).square().sum())
                scale += float(output.square().sum())
                worth[:, head] = torch.maximum(worth[:, head], utility(logits, value, w_o[group], n))
        return worth, (off / max(scale, 1e-30)) ** 0.5


def _output_slices(o_proj: torch.nn.Module, layout: HybridLayout) -> torch.Tensor:
    """``[Q, D, hidden]`` float32: the slices of the output projection, transposed."""
    weight: Any = o_proj.weight
    if weight.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        raise GateSightError(
            f"the output projection is stored as {weight.dtype}, whose scales are not read yet: load the model in bfloat16."
        )
    return weight.detach().float().T.unflatten(0, (layout.query_heads, layout.head_dim))


def _float16(signals: torch.Tensor, doc_id: str) -> np.ndarray:
    largest = float(signals.abs().max())
    if not largest <= torch.finfo(torch.float16).max:
        raise GateSightError(
            f"document '{doc_id}': a signal of {largest:g} does not fit float16; the model may have diverged."
        )
    return signals.half().numpy()

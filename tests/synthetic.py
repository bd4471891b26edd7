"""A synthetic recording with planted structure: in every window a few heads predict U, and age helps a little."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gatesight import HybridLayout
from gatesight.recording.store import SHARD_DOCUMENTS, Manifest, RecordedDocument, dimensions, shard_name, write_rows

CORPORA = (
    "prose",
    "synthetic_prose",
    "diverse_qa",
    "translated_qa",
    "math_text",
    "code",
    "code_instruction",
    "general_instruction",
    "math_instruction",
)


def layout(groups: int = 4, value_heads: int = 6, kv_heads: int = 2) -> HybridLayout:
    """Three GDN layers before each of ``groups`` attention layers."""
    attention = tuple(range(3, 4 * groups, 4))
    return HybridLayout(
        model_type="qwen3_5_text",
        gdn_layers=tuple(i for i in range(4 * groups) if i not in attention),
        attention_layers=attention,
        hidden_size=192,
        value_heads=value_heads,
        key_heads=value_heads // 3,
        value_dim=64,
        key_dim=64,
        query_heads=3 * kv_heads,
        kv_heads=kv_heads,
        head_dim=64,
    )


SMALL = layout(groups=2, value_heads=3)
TINY = layout()


def write_recording(
    folder: Path,
    shape: HybridLayout = SMALL,
    corpora: tuple[str, ...] = CORPORA[:3],
    documents: int = 3,
    tokens: tuple[int, int] = (60, 90),
    seed: int = 0,
    prefix: int = 2,
    packed: bool = False,
    scale: dict[str, float] | None = None,
) -> Path:
    """Write a recording of ``documents`` documents a corpus.

    Args:
        scale: factors of ‖v‖ by corpus, to make one corpus differ while the others keep their bytes.
    """
    sizes = dimensions(shape, 2, 4)
    manifest = Manifest(shape, sizes, {"model": "synthetic", "revision": "0", "seed": seed}, packed)
    rows = []
    for c, corpus in enumerate(corpora):
        for d in range(documents):
            random = np.random.default_rng([seed, c, d])
            n = int(random.integers(*tokens, endpoint=True))
            rows.append(
                manifest.to_row(
                    _document(
                        f"{corpus}/{d:05d}", corpus, n, prefix, sizes, random, shape, (scale or {}).get(corpus, 1.0)
                    )
                )
            )
    shards = -(-len(rows) // SHARD_DOCUMENTS)
    for s in range(shards):
        write_rows(folder / shard_name(s, shards), rows[s * SHARD_DOCUMENTS : (s + 1) * SHARD_DOCUMENTS], packed)
    return folder


def _document(
    name: str,
    corpus: str,
    n: int,
    prefix: int,
    sizes: dict[str, int],
    random: np.random.Generator,
    shape: HybridLayout,
    scale: float,
) -> RecordedDocument:
    g, v, layers, heads = (sizes[letter] for letter in "GVLH")
    latent = random.standard_normal((n, g, v, 3))
    decay = np.linspace(0, 7, g * v).reshape(g, v)  # half-lives from a token to a thousand
    signals = np.stack(
        [
            1 / (1 + np.exp(-latent[..., 0])),
            -np.exp(0.5 * latent[..., 1] - decay),
            scale * (2 + 0.5 * latent[..., 2]).clip(0.1),
        ],
        axis=-1,
    ).astype(np.float16)
    utility = np.empty((n, layers, heads), np.float32)
    planted = np.random.default_rng(7)  # the same heads matter in every document
    for layer, window in enumerate(shape.windows(6)):
        for head in range(heads):
            cells = [(planted.choice(window), planted.integers(v)) for _ in range(3)]
            signal = sum(latent[:, a, b, 2] + 0.7 * latent[:, a, b, 0] for a, b in cells)
            noise = random.standard_normal(n)
            utility[:, layer, head] = np.exp(0.8 * signal + 0.7 * noise + np.linspace(0.5, 0, n))
    return RecordedDocument(
        doc_id=name,
        corpus=corpus,
        prefix=prefix,
        input_ids=random.integers(0, 100, n).astype(np.int32),
        signals=signals,
        utility=utility,
        mean_decay=signals[..., 1].astype(np.float32).mean(0),
        gate_query=random.uniform(0, 0.5, (layers, sizes["Q"])).astype(np.float32),
        gate_kv=random.uniform(0, 0.5, (layers, heads)).astype(np.float32),
        continuations=np.zeros((sizes["M"], sizes["T"]), np.int32),
        continuation_lengths=np.full(sizes["M"], sizes["T"], np.int32),
        reconstruction_error=np.zeros(layers, np.float32),
    )

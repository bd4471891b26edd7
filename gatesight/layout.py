"""Which layers of a hybrid model are recurrent and which attend, and their heads and dims, read from the model's config."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gatesight.errors import GateSightError

GDN = "linear_attention"
ATTENTION = ("full_attention", "indexed_attention")
"""Layer types, in the words of the family's configs, that keep a KV entry for every token."""


@dataclass(frozen=True)
class HybridLayout:
    """The shape of a hybrid model: Gated DeltaNet layers between attention layers.

    Shapes elsewhere are written with these letters: ``G`` GDN layers, ``V`` value heads of a GDN layer, ``L`` attention
    layers, ``H`` KV heads and ``Q`` query heads of an attention layer, ``D`` its head dim.
    """

    model_type: str
    gdn_layers: tuple[int, ...]
    """Absolute indices of the GDN layers, ascending; ``G`` of them."""
    attention_layers: tuple[int, ...]
    """Absolute indices of the attention layers, ascending; ``L`` of them."""
    hidden_size: int
    value_heads: int
    key_heads: int
    value_dim: int
    key_dim: int
    query_heads: int
    kv_heads: int
    head_dim: int

    @classmethod
    def from_config(cls, config: Any) -> HybridLayout:
        """Read the layout from a transformers config, a config dict, a model folder, a ``config.json`` or a hub id.

        Raises:
            GateSightError: the config cannot be found, or the model is not a GDN/attention hybrid.
        """
        values = _text_config(config)
        model_type = str(values.get("model_type", "unknown"))
        types = _layer_types(values)
        gdn = tuple(i for i, kind in enumerate(types) if kind == GDN)
        attention = tuple(i for i, kind in enumerate(types) if kind in ATTENTION)
        unknown = sorted(set(types) - {GDN, *ATTENTION})
        if not gdn or not attention or unknown:
            found = ", ".join(sorted(set(types))) or "no layer types"
            raise GateSightError(
                f"model type '{model_type}' is not a hybrid of Gated DeltaNet and attention layers (its config names: {found}); "
                "GateSight reads models shaped like Qwen3-Next and Qwen3.5."
            )
        try:
            query_heads = int(values["num_attention_heads"])
            return cls(
                model_type=model_type,
                gdn_layers=gdn,
                attention_layers=attention,
                hidden_size=int(values["hidden_size"]),
                value_heads=int(values["linear_num_value_heads"]),
                key_heads=int(values["linear_num_key_heads"]),
                value_dim=int(values["linear_value_head_dim"]),
                key_dim=int(values["linear_key_head_dim"]),
                query_heads=query_heads,
                kv_heads=int(values["num_key_value_heads"]),
                head_dim=int(values.get("head_dim") or values["hidden_size"] // query_heads),
            )
        except KeyError as missing:
            raise GateSightError(
                f"the config of model type '{model_type}' lacks {missing}, which a GDN/attention hybrid must state."
            ) from None
        except (TypeError, ValueError) as error:
            raise GateSightError(
                f"the config of model type '{model_type}' states no usable number ({error})."
            ) from None

    @property
    def group(self) -> int:
        """Query heads that share one KV head."""
        return self.query_heads // self.kv_heads

    @property
    def hash(self) -> str:
        """16 hex digits that two layouts share if and only if they are equal."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    def windows(self, width: int) -> list[tuple[int, ...]]:
        """For each attention layer, the up to ``width`` GDN layers that precede it (indices into the ``G`` axis), W(l) of §4.1."""
        if width < 1:
            raise GateSightError(f"window={width}: the window must hold at least 1 GDN layer.")
        preceding = [sum(g < layer for g in self.gdn_layers) for layer in self.attention_layers]
        return [tuple(range(max(0, p - width), p)) for p in preceding]

    def to_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> HybridLayout:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        return cls(**fields)


def _text_config(config: Any) -> dict[str, Any]:
    """The config of the language model as a plain dict (multimodal configs nest it)."""
    if isinstance(config, (str, Path)):
        file = _config_file(str(config))
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise GateSightError(f"'{file}' is damaged ({error}): copy the model anew.") from None
    elif not isinstance(config, dict):
        config = config.to_dict()
    return dict(config.get("text_config") or config)


def _config_file(source: str) -> Path:
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if path.is_file():
        return path
    if path.suffix == ".json" or source.count("/") != 1 or path.exists():
        raise GateSightError(
            f"no model config at '{source}': give a model folder, a config.json or a hub id (owner/name)."
        )
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(source, "config.json"))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise GateSightError(
            f"no model config at '{source}': no such folder, and the hub answered {type(error).__name__}."
        ) from error


def _layer_types(values: dict[str, Any]) -> list[str]:
    """One type a layer; older configs state only that every k-th layer attends."""
    if values.get("layer_types"):
        return list(values["layer_types"])
    interval, layers = values.get("full_attention_interval"), values.get("num_hidden_layers", 0)
    if not interval:
        return []
    return ["full_attention" if (i + 1) % interval == 0 else GDN for i in range(layers)]

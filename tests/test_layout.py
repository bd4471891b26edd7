"""The layout is read from real transformers configs, and anything that is not a GDN hybrid is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import transformers
from hypothesis import given
from hypothesis import strategies as st

from gatesight import GateSightError, HybridLayout
from tests.models import SMALL


@pytest.mark.parametrize("name", ["Qwen3NextConfig", "Qwen3_5TextConfig", "Qwen3_5MoeTextConfig"])
def test_family_configs_give_one_layout(name: str) -> None:
    layout = HybridLayout.from_config(getattr(transformers, name)(**SMALL))
    assert layout.gdn_layers == (0, 1, 2, 4, 5, 6)
    assert layout.attention_layers == (3, 7)
    assert (layout.value_heads, layout.query_heads, layout.kv_heads, layout.head_dim, layout.group) == (6, 4, 2, 32, 2)
    assert layout.windows(6) == [(0, 1, 2), (0, 1, 2, 3, 4, 5)]


@pytest.mark.parametrize("name", ["Qwen3_5Config", "Qwen3_5MoeConfig"])
def test_a_multimodal_config_gives_the_layout_of_its_text_model(name: str) -> None:
    config = getattr(transformers, name)(text_config=SMALL)
    assert HybridLayout.from_config(config) == HybridLayout.from_config(config.text_config)


def test_a_folder_a_file_and_a_dict_give_the_same_layout(tmp_path: Path) -> None:
    config = transformers.Qwen3_5TextConfig(**SMALL)
    config.save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    layouts = [HybridLayout.from_config(source) for source in (tmp_path, str(tmp_path / "config.json"), values, config)]
    assert all(layout == layouts[0] for layout in layouts)
    assert len({layout.hash for layout in layouts}) == 1


def test_an_interval_stands_for_layer_types() -> None:
    values = {**SMALL, "model_type": "qwen3_next", "full_attention_interval": 4}
    assert HybridLayout.from_config(values).attention_layers == (3, 7)


def test_every_field_moves_the_hash_and_survives_json() -> None:
    layout = HybridLayout.from_config(transformers.Qwen3_5TextConfig(**SMALL))
    values = layout.to_dict()
    assert HybridLayout.from_dict(json.loads(json.dumps(values))) == layout
    for name, value in values.items():
        other = "x" if isinstance(value, str) else [*value, 99] if isinstance(value, list) else value + 1
        assert HybridLayout.from_dict({**values, name: other}).hash != layout.hash


@given(st.lists(st.booleans(), min_size=2, max_size=40).filter(lambda kinds: len(set(kinds)) == 2), st.integers(1, 50))
def test_a_window_holds_the_nearest_preceding_gdn_layers(attends: list[bool], width: int) -> None:
    types = ["full_attention" if attend else "linear_attention" for attend in attends]
    layout = HybridLayout.from_config({**SMALL, "layer_types": types})
    for layer, window in zip(layout.attention_layers, layout.windows(width), strict=True):
        before = [i for i, gdn in enumerate(layout.gdn_layers) if gdn < layer]
        assert list(window) == before[-width:]


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (transformers.LlamaConfig(), "not a hybrid"),
        (transformers.JambaConfig(), "not a hybrid"),
        ({"model_type": "qwen3_5_text", "layer_types": ["linear_attention"] * 4}, "not a hybrid"),
        ({"model_type": "x", "layer_types": ["linear_attention", "sliding_attention", "full_attention"]}, "sliding"),
        ({"model_type": "x", "layer_types": ["linear_attention", "full_attention"]}, "lacks 'num_attention_heads'"),
        ("no/such/folder", "no model config"),
        ("/no/such/config.json", "no model config"),
    ],
)
def test_everything_else_is_refused_in_one_sentence(source: object, reason: str) -> None:
    with pytest.raises(GateSightError, match=reason):
        HybridLayout.from_config(source)


def test_a_window_of_zero_is_refused() -> None:
    with pytest.raises(GateSightError, match="at least 1"):
        HybridLayout.from_config({**SMALL, "layer_types": ["linear_attention", "full_attention"]}).windows(0)

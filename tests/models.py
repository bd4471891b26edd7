"""Small random models of every architecture of the family, for tests."""

from __future__ import annotations

import torch
import transformers

SMALL = {
    "vocab_size": 128,
    "num_hidden_layers": 8,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
VISION = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 64}

FAMILY = {
    "qwen3_5": ("Qwen3_5TextConfig", "Qwen3_5ForCausalLM"),
    "qwen3_5_moe": ("Qwen3_5MoeTextConfig", "Qwen3_5MoeForCausalLM"),
    "qwen3_next": ("Qwen3NextConfig", "Qwen3NextForCausalLM"),
    "qwen3_5_multimodal": ("Qwen3_5Config", "Qwen3_5ForConditionalGeneration"),
    "qwen3_5_moe_multimodal": ("Qwen3_5MoeConfig", "Qwen3_5MoeForConditionalGeneration"),
}


def random_model(kind: str, peak: float = 1.0, seed: int = 0) -> transformers.PreTrainedModel:
    """A random model of 8 layers; ``peak`` multiplies its attention weights, so that attention is peaked and entries matter."""
    config_class, model_class = (getattr(transformers, name) for name in FAMILY[kind])
    torch.manual_seed(seed)
    nested = {"text_config": SMALL, "vision_config": VISION} if "multimodal" in kind else SMALL
    model = model_class(config_class(**nested)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "self_attn" in name and weight.ndim == 2:
                weight.mul_(peak)
            if "linear_attn" in name and weight.ndim == 2:
                weight.mul_(5)  # decays and gates that differ from token to token
    return model

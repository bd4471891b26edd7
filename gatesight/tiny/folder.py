"""The folder of a stand-in model, as transformers and vLLM load it."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from gatesight.files import atomic_path, atomic_write
from gatesight.tiny.architecture import END_OF_TEXT, PAD, TURN_END
from gatesight.tiny.text import SPECIAL

CHAT_TEMPLATE = """{% for m in messages %}<|im_start|>{{ m['role'] }}
{{ m['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

SAMPLING = {
    "eos_token_id": [TURN_END, END_OF_TEXT],
    "pad_token_id": PAD,
    "do_sample": True,
    "temperature": 0.7,
    "top_p": 0.95,
    "top_k": 20,
}


def save(folder: Path, model: Qwen3_5ForCausalLM, tokenizer: Tokenizer) -> None:
    """Write weights (bf16 safetensors, the tied head left out), config, tokenizer with chat template and sampling defaults.

    The model itself is rounded to bf16 too, so that what is measured after it is what was saved.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    weights = {
        name: tensor.to(torch.bfloat16).cpu().contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    with atomic_path(folder / "model.safetensors") as path:
        save_file(weights, path, metadata={"format": "pt"})
    config = model.config.to_diff_dict()
    config.update(architectures=["Qwen3_5ForCausalLM"], dtype="bfloat16")
    atomic_write(folder / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")
    atomic_write(folder / "generation_config.json", json.dumps(SAMPLING, indent=2) + "\n")
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[TURN_END],
        pad_token=SPECIAL[PAD],
        clean_up_tokenization_spaces=False,
        model_max_length=model.config.max_position_embeddings,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(folder)

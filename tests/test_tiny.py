"""What ships keeps its promises: the embedded model loads as any checkpoint, the small recording is its own."""

from __future__ import annotations

import re
from collections import Counter

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from gatesight.layout import HybridLayout
from gatesight.recording.provenance import model_digest
from gatesight.recording.store import Recording
from gatesight.tiny import MODEL, RECORDING
from gatesight.tiny.corpora import NAMES

MIB = 2**20


def test_the_model_loads_as_any_checkpoint_and_its_card_is_of_it() -> None:
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    assert model.dtype == torch.bfloat16
    assert sum(path.stat().st_size for path in MODEL.glob("*.safetensors")) <= 16 * MIB
    assert model.config.vocab_size >= len(tokenizer)
    parameters = re.search(r"\| parameters \| ([\d,]+) ", (MODEL / "README.md").read_text(encoding="utf-8"))
    assert parameters is not None
    assert int(parameters[1].replace(",", "")) == model.num_parameters()


def test_chats_are_rendered_and_end_generation() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    chat = [{"role": "user", "content": "Hello"}]
    rendered = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert rendered == "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    (end,) = tokenizer("<|im_end|>").input_ids
    sampling = GenerationConfig.from_pretrained(MODEL)
    assert end in sampling.eos_token_id
    assert sampling.do_sample


def test_the_model_retrieves_from_its_context() -> None:
    model, tokenizer = AutoModelForCausalLM.from_pretrained(MODEL), AutoTokenizer.from_pretrained(MODEL)
    codes = {"river-apple": 41275, "stone": 90318, "paper-tower": 66012, "green-letter": 17730}
    prompt = "".join(f"{name} -> {code}\n" for name, code in codes.items()) + "\n\nQ: What does paper-tower map to?\nA:"
    inputs = tokenizer(prompt, return_tensors="pt")
    output = model.generate(**inputs, max_new_tokens=6, do_sample=False)[0, inputs.input_ids.shape[1] :]
    assert "66012" in tokenizer.decode(output)


def test_the_recording_is_of_this_model_and_holds_every_corpus() -> None:
    recording = Recording(RECORDING)
    assert sum(path.stat().st_size for path in RECORDING.iterdir()) <= 12 * MIB
    assert set(Counter(recording.corpora)) == set(NAMES)
    assert min(Counter(recording.corpora).values()) >= 5
    assert recording.layout == HybridLayout.from_config(AutoConfig.from_pretrained(MODEL))
    assert recording.manifest.provenance["revision"] == model_digest(MODEL)
    tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    for index in (0, len(recording) - 1):
        document = recording[index]
        assert tokenizer.decode(document.input_ids.tolist())
        assert document.reconstruction_error.max() <= 0.05

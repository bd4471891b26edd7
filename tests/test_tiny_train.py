"""The trainer of the stand-in model: its fast forward is transformers' own, and a micro training learns and saves."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from transformers import AutoModelForCausalLM, AutoTokenizer

from gatesight.errors import GateSightError
from gatesight.tiny.architecture import Architecture, build, trainable
from gatesight.tiny.evaluate import evaluate
from gatesight.tiny.fast import CHUNK, FastModel, states_before, unit_lower_inverse
from gatesight.tiny.folder import save
from gatesight.tiny.hiding import Hiding, visibility
from gatesight.tiny.tasks import (
    ANSWER,
    EVALUATION,
    RETRIEVAL,
    STATE,
    Generator,
    Mixture,
    Scribe,
    definitions,
    needles,
    story,
    table,
    translations,
    variables,
)
from gatesight.tiny.text import Facts, Library, prepare, train_tokenizer
from gatesight.tiny.train import Plan, Rows, train

MICRO = Architecture(vocabulary=128, hidden=64, mlp=96, layers=4)


def relative(x: torch.Tensor, reference: torch.Tensor) -> float:
    return float((x - reference).norm() / reference.norm().clamp_min(1e-12))


@pytest.mark.parametrize("ids", ["random", "repeated", "short"])
def test_fast_forward_equals_transformers(ids: str) -> None:
    model = build(MICRO, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    tokens = {
        "random": torch.randint(0, 128, (2, 3 * CHUNK + 9)),
        "repeated": torch.randint(0, 128, (2, 1)).expand(
            2, 2 * CHUNK
        ),  # equal keys: the triangular system at its worst
        "short": torch.randint(0, 128, (1, 5)),
    }[ids]
    target = torch.randint(0, 128, (tokens.numel(),))
    fast, reference = FastModel(model)(tokens), model(input_ids=tokens, use_cache=False).logits
    assert relative(fast, reference) < 1e-5

    gradients = []
    for logits in (fast, reference):
        model.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), target).backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    largest = max(float(g.norm()) for g in gradients[1].values())
    for name, gradient in gradients[1].items():
        assert float((gradients[0][name] - gradient).norm()) < 1e-4 * float(gradient.norm()) + 1e-6 * largest, name


def test_hidden_entries_are_not_attended_to() -> None:
    """Changing a token moves later logits through attention alone where the GDN layers are silenced."""
    model = build(MICRO, seed=0)
    with torch.no_grad():
        for layer in model.model.layers[:3]:
            layer.linear_attn.out_proj.weight.zero_()
    ids = torch.randint(0, 128, (1, 64))
    changed = ids.clone()
    changed[0, 10] = (ids[0, 10] + 1) % 128
    visible = torch.ones(64, 64, dtype=torch.bool).tril()
    visible[11:, 10] = False
    fast = FastModel(model)
    causal, hidden = (fast(ids, v) - fast(changed, v) for v in (None, visible[None, None]))
    assert causal[0, 40].abs().max() > 1e-4
    assert hidden[0, 11:].abs().max() == 0


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_states_follow_the_recurrence(count: int) -> None:
    forget, write = torch.randn(2, 3, count, 4, 4).double() * 0.3, torch.randn(2, 3, count, 4, 4).double()
    state, states = torch.zeros(2, 3, 4, 4).double(), states_before(forget, write)
    for c in range(count):
        assert torch.allclose(states[:, :, c], state)
        state = forget[:, :, c] @ state + write[:, :, c]


def test_triangular_inverse() -> None:
    lower = (torch.randn(3, CHUNK, CHUNK).double() * 0.3).tril(-1).requires_grad_()
    weight, identity = torch.randn(3, CHUNK, CHUNK).double(), torch.eye(CHUNK).double()
    (gradient,) = torch.autograd.grad((unit_lower_inverse(lower) * weight).sum(), lower)
    (reference,) = torch.autograd.grad((torch.linalg.inv(identity + lower) * weight).sum(), lower)
    assert relative(gradient, reference.tril(-1)) < 1e-10
    ones = torch.ones(1, CHUNK, CHUNK).tril(
        -1
    )  # identical keys, nothing forgotten: the inverse has entries 1 and -1 alone
    assert (unit_lower_inverse(ones) - torch.linalg.inv((torch.eye(CHUNK) + ones).double())).abs().max() < 1e-3


def test_slow_heads_keep_their_half_life() -> None:
    architecture = Architecture(vocabulary=128, hidden=64, mlp=96, layers=4, slow_heads=2, rotary=False)
    model = build(architecture, seed=3)
    gdn = model.model.layers[0].linear_attn
    half_lives = torch.log(torch.tensor(2.0)) / (gdn.A_log.exp() * F.softplus(gdn.dt_bias))
    assert ((half_lives[-2:] >= 999) & (half_lives[-2:] <= 10_001)).all()
    assert (gdn.in_proj_a.weight[-2:] == 0).all()
    masks = trainable(model, architecture)
    assert {name.split(".")[-1] for name in masks} == {"A_log", "dt_bias", "weight"}
    assert float(masks["model.layers.0.linear_attn.A_log"].sum()) == 4


def test_impossible_shapes_are_refused() -> None:
    with pytest.raises(GateSightError, match="slow_heads=9"):
        Architecture(slow_heads=9)
    with pytest.raises(GateSightError, match="layers=2"):
        Architecture(layers=2)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A library of a few thousand characters with every kind of fact."""
    folder = tmp_path_factory.mktemp("library")
    words = [
        a + b for a in ("amber", "birch", "cedar", "dune", "ember", "fjord") for b in ("ly", "ton", "wick", "by", "low")
    ]
    glosses = [(word, f"a kind of {other}") for word, other in zip(words, reversed(words), strict=True)]
    facts = Facts(words, glosses, {"German": [(f"the {word}", f"das {word}") for word in words]})
    texts = [" ".join(f"{w} is {g}." for w, g in glosses[i:] + glosses[:i]) for i in range(len(glosses))]
    prepare(folder, {"glosses": texts}, facts, train_tokenizer(texts, 300))
    return Library(folder)


def test_rows_do_not_depend_on_their_order(library: Library) -> None:
    plan = Plan(mixture=Mixture(0.5, 0.4), hiding=Hiding(recent=0.5, scattered=0.5), steps=8, batch=2, length=256)
    forwards, backwards = Rows(plan, library), Rows(plan, library)
    kept = {i: forwards[i] for i in range(len(forwards))}
    for i in reversed(range(len(backwards))):
        for first, second in zip(kept[i], backwards[i], strict=True):
            assert torch.equal(torch.as_tensor(first), torch.as_tensor(second))
    assert all(len(ids) == len(weights) == 257 for ids, weights, _, _ in kept.values())


@pytest.mark.parametrize("generator", [*RETRIEVAL, *STATE], ids=lambda g: g.__name__)
def test_generators_fill_their_length_and_mark_their_answers(generator: Generator, library: Library) -> None:
    for seed in range(5):
        document = generator(Scribe(random.Random(seed), library, "train", 400, 2))
        assert len(document.ids) == len(document.weights) > 100
        for start, stop in document.answers:
            answer = library.tokenizer.decode(document.ids[start:stop]).strip()
            assert answer and document.weights[start:stop] == [ANSWER] * (stop - start)
            if generator in (needles, table, variables, definitions, translations, story):
                assert answer in library.tokenizer.decode(document.ids[:start])


@pytest.mark.parametrize("hiding", [Hiding(), Hiding(recent=1.0, recent_span=(4, 4)), Hiding(scattered=1.0)])
def test_training_learns_and_saves_what_transformers_loads(hiding: Hiding, library: Library, tmp_path: Path) -> None:
    architecture = Architecture(vocabulary=library.vocabulary, hidden=64, mlp=96, layers=4, slow_heads=1)
    plan = Plan(architecture, Mixture(0.0, 0.0), hiding, steps=24, batch=2, length=128, warmup=2)
    model, report = train(plan, library)
    assert report["course"][-1]["text"] < 0.8 * math.log(library.vocabulary)
    again, _ = train(plan, library)
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name)), name
    slow = build(architecture, plan.seed).model.layers[0].linear_attn.A_log[-1]
    assert torch.equal(model.model.layers[0].linear_attn.A_log[-1], slow)

    save(tmp_path, model, library.tokenizer)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("amberly is", return_tensors="pt").input_ids
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert tokenizer.apply_chat_template([{"role": "user", "content": "x"}], tokenize=False).startswith(
        "<|im_start|>user"
    )


def test_evaluation_measures_every_task(library: Library) -> None:
    model = build(Architecture(vocabulary=library.vocabulary, hidden=64, mlp=96, layers=4), seed=0).eval()
    figures = evaluate(model, library, lengths=(256,), documents=2)
    assert set(figures["retrieval"]) == {f"{task}@256" for task in EVALUATION}
    assert figures["half-lives"]["heads"] == 18
    assert abs(figures["held-out loss"]["glosses"] - math.log(library.vocabulary)) < 2


def test_visibility_hides_the_newest_and_the_chosen_but_never_oneself() -> None:
    seen = visibility(torch.tensor([2]), torch.tensor([[False, True, False, False, False]]))[0, 0]
    expected = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [1, 0, 0, 1, 0], [1, 0, 0, 0, 1]]
    assert torch.equal(seen.int(), torch.tensor(expected, dtype=torch.int32))


def test_a_folder_without_prepared_text_and_another_vocabulary_are_refused(library: Library, tmp_path: Path) -> None:
    with pytest.raises(GateSightError, match=r"gatesight\.tiny\.prepare"):
        Library(tmp_path)
    with pytest.raises(GateSightError, match="make them equal"):
        train(Plan(steps=1), library)

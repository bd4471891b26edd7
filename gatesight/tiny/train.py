"""Trains a stand-in model from prepared text, measures it and saves it: ``python -m gatesight.tiny.train LIBRARY OUT``."""

from __future__ import annotations

import argparse
import json
import logging
import math
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForCausalLM

from gatesight.errors import GateSightError
from gatesight.files import atomic_write
from gatesight.tiny.architecture import Architecture, build, trainable
from gatesight.tiny.evaluate import evaluate
from gatesight.tiny.fast import FastModel
from gatesight.tiny.folder import save
from gatesight.tiny.hiding import Hiding, visibility
from gatesight.tiny.optimizer import Optimizer
from gatesight.tiny.tasks import ANSWER, TEXT, Mixture
from gatesight.tiny.text import Library

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """One training: everything that decides its outcome."""

    architecture: Architecture = field(default_factory=Architecture)
    mixture: Mixture = field(default_factory=Mixture)
    hiding: Hiding = field(default_factory=Hiding)
    steps: int = 3000
    batch: int = 16
    length: int = 2048
    rate: float = 4e-3
    matrix_rate: float = 6e-3
    warmup: int = 60
    seed: int = 0

    def longest(self, progress: float) -> int:
        """The longest document at this point of training: short ones first, where copying is learnt soonest."""
        stages = ((0.35, 1), (0.2, 2), (0.1, 4), (0.0, 8))
        return max(160, next(self.length // part for start, part in stages if progress >= start))

    def rate_share(self, step: int) -> float:
        """Warm up, stay, and fall linearly to a hundredth over the last 40%."""
        progress = step / self.steps
        return min(1.0, (step + 1) / self.warmup, max(0.01, (1 - progress) / 0.4))


class Rows(Dataset):
    """The training rows of a plan, each a function of the seed and its index alone."""

    def __init__(self, plan: Plan, library: Library) -> None:
        self._plan, self._library = plan, library

    def __len__(self) -> int:
        return self._plan.steps * self._plan.batch

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int, Tensor]:
        """Ids int64 ``[T + 1]``, loss weights ``[T + 1]``, newest entries hidden, entries hidden ``[T]``."""
        if index >= len(self):
            raise IndexError(index)
        plan, rng = self._plan, random.Random(f"{self._plan.seed}/{index}")
        progress = index / len(self)
        row = plan.mixture.row(rng, self._library, plan.length + 1, plan.longest(progress))
        newest, hidden = plan.hiding.draw(rng, plan.length)
        return torch.tensor(row.ids), torch.tensor(row.weights), newest, hidden


class Step:
    """One training step on batches of one shape, captured in a CUDA graph on a GPU."""

    def __init__(self, model: Qwen3_5ForCausalLM, plan: Plan) -> None:
        device = model.device
        self._cuda = device.type == "cuda"
        self._fast = FastModel(model, compiled=self._cuda)
        self.optimizer = Optimizer(model, trainable(model, plan.architecture), plan.rate, plan.matrix_rate)
        self._hides = plan.hiding.recent > 0 or plan.hiding.scattered > 0
        shape = (plan.batch, plan.length)
        self._inputs = [
            torch.zeros(shape[0], shape[1] + 1, dtype=torch.long, device=device),
            torch.zeros(shape[0], shape[1] + 1, device=device),
            torch.zeros(shape[0], dtype=torch.long, device=device),
            torch.zeros(shape, dtype=torch.bool, device=device),
        ]
        self._figures = torch.zeros(4, device=device)
        self._graph: Any = None
        self._calls = 0

    def __call__(self, batch: list[Tensor], rate_share: float) -> None:
        """Train on one batch of ``Rows``."""
        for static, new in zip(self._inputs, batch, strict=True):
            static.copy_(new, non_blocking=True)
        self.optimizer.set_rate(rate_share)
        if not self._cuda:
            self._step()
        elif self._graph:
            self._graph.replay()
        else:
            self._warm_or_capture()
        self._calls += 1

    def figures(self) -> dict[str, float]:
        """Of the last step: weighted loss, loss of answers and of text, gradient norm."""
        return dict(zip(("loss", "answers", "text", "gradient"), self._figures.tolist(), strict=True))

    def _warm_or_capture(self) -> None:
        """The first steps run on a side stream, as capture wants it; then the step is captured, and runs by replay."""
        if self._calls < 3:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                self._step()
            torch.cuda.current_stream().wait_stream(stream)
            return
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self._graph = graph
        graph.replay()

    def _step(self) -> None:
        ids, weights, newest, hidden = self._inputs
        visible = visibility(newest, hidden) if self._hides else None
        self.optimizer.zero_grad()
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=self._cuda):
            logits = self._fast(ids[:, :-1], visible)
        losses = F.cross_entropy(logits.float().flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
        weight = weights[:, 1:].flatten()
        loss = (losses * weight).sum() / weight.sum()
        loss.backward()
        norm = self.optimizer.step()
        with torch.no_grad():
            parts = [(losses * (weight == w)).sum() / (weight == w).sum().clamp_min(1) for w in (ANSWER, TEXT)]
            self._figures.copy_(torch.stack([loss.detach(), *parts, norm]))


def train(plan: Plan, library: Library, workers: int = 0) -> tuple[Qwen3_5ForCausalLM, dict[str, Any]]:
    """Train a new model on the GPU if there is one; the model and the course of its losses.

    Raises:
        GateSightError: the vocabulary of plan and library differ, or the loss is no longer finite.
    """
    if plan.architecture.vocabulary != library.vocabulary:
        raise GateSightError(
            f"the tokenizer of the library has {library.vocabulary} tokens, the model {plan.architecture.vocabulary}: make them equal."
        )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_float32_matmul_precision("high")
    model = build(plan.architecture, plan.seed).to(device)
    step, course, start = Step(model, plan), [], time.monotonic()
    for i, batch in enumerate(_batches(plan, library, workers)):
        step(batch, plan.rate_share(i))
        if (i + 1) % 100 == 0 or i + 1 == plan.steps:
            figures = {"step": i + 1, "seconds": round(time.monotonic() - start, 1), **step.figures()}
            course.append(figures)
            log.info("%s", json.dumps({k: round(v, 3) for k, v in figures.items()}))
            if not math.isfinite(figures["loss"]):
                raise GateSightError(f"the loss is not finite at step {i + 1}: lower the learning rates.")
    seconds = time.monotonic() - start
    tokens = plan.steps * plan.batch * plan.length
    return model.eval(), {"tokens": tokens, "seconds": round(seconds, 1), "device": device.type, "course": course}


def _batches(plan: Plan, library: Library, workers: int) -> Iterator[list[Tensor]]:
    options: dict[str, Any] = {"prefetch_factor": 8, "multiprocessing_context": "fork"} if workers else {}
    yield from DataLoader(Rows(plan, library), plan.batch, num_workers=workers, **options)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    arguments = _parser().parse_args()
    plan = plan_of(arguments)
    try:
        library = Library(arguments.library)
        model, report = train(plan, library, arguments.workers)
        save(arguments.out, model, library.tokenizer)
        figures = evaluate(model, library)
    except GateSightError as error:
        raise SystemExit(f"error: {error}") from None
    report = {"plan": asdict(plan), **report, **figures}
    atomic_write(arguments.out / "training.json", json.dumps(report, indent=1))
    log.info("%s", json.dumps(figures, indent=1))


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The plan that the command line asks for."""
    return Plan(
        Architecture(
            layers=arguments.layers,
            hidden=arguments.hidden,
            mlp=arguments.mlp,
            attention_every=arguments.attention_every,
            slow_heads=arguments.slow_heads,
            rotary=not arguments.no_rotary,
        ),
        Mixture(arguments.retrieval, arguments.state),
        Hiding(recent=arguments.hide_recent, scattered=arguments.hide_scattered),
        arguments.steps,
        arguments.batch,
        arguments.length,
        seed=arguments.seed,
    )


def _parser() -> argparse.ArgumentParser:
    defaults = Plan()
    shape, mixture, hiding = defaults.architecture, defaults.mixture, defaults.hiding
    parser = argparse.ArgumentParser(prog="python -m gatesight.tiny.train", description=__doc__)
    add = parser.add_argument
    add("library", type=Path, help="folder of prepared text (python -m gatesight.tiny.prepare)")
    add("out", type=Path, help="folder for the model")
    add("--steps", type=int, default=defaults.steps)
    add("--batch", type=int, default=defaults.batch, help="rows a step")
    add("--length", type=int, default=defaults.length, help="tokens a row")
    add("--layers", type=int, default=shape.layers)
    add("--attention-every", type=int, default=shape.attention_every, help="every n-th layer attends")
    add("--hidden", type=int, default=shape.hidden)
    add("--mlp", type=int, default=shape.mlp)
    add("--slow-heads", type=int, default=shape.slow_heads, help="heads of each GDN layer with a fixed, long half-life")
    add("--no-rotary", action="store_true", help="attention without positions")
    add("--retrieval", type=float, default=mixture.retrieval, help="share of retrieval tasks")
    add("--state", type=float, default=mixture.state, help="share of running-state tasks")
    add("--hide-recent", type=float, default=hiding.recent, help="share of rows whose newest entries are hidden")
    add(
        "--hide-scattered",
        type=float,
        default=hiding.scattered,
        help="share of rows with 50 to 90%% of the entries hidden",
    )
    add("--seed", type=int, default=defaults.seed)
    add("--workers", type=int, default=0, help="processes that write the training rows")
    return parser


if __name__ == "__main__":
    main()

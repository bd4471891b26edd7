"""Record a model's signals and utilities: ``python record.py [model=tiny] [corpora=embedded] [documents=40] [workers=2]``."""

from __future__ import annotations

import hydra
import rich
from hydra.utils import instantiate
from omegaconf import DictConfig
from transformers import AutoTokenizer

from callbacks.progress import Progress
from callbacks.recording_writer import RecordingWriter
from data_modules.text import TextDataModule
from gatesight.cli import at_least, entry_point
from gatesight.errors import GateSightError
from gatesight.recording.corpora import Choice, choose
from gatesight.recording.plan import RecordingPlan
from gatesight.recording.provenance import describe_model, make_manifest
from models.recorder_module import RecorderModule


def choose_documents(cfg: DictConfig) -> Choice:
    """The documents that the corpora hold for this model's tokenizer."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(cfg.model.path, revision=cfg.model.revision)
    except (OSError, ValueError) as error:
        raise GateSightError(
            f"'{cfg.model.path}' has no tokenizer that loads ({str(error).splitlines()[0]})."
        ) from error
    if cfg.chat and not tokenizer.chat_template:
        raise GateSightError(
            f"chat=true: the tokenizer of '{cfg.model.path}' has no chat template; record with chat=false."
        )
    corpora = instantiate(cfg.corpora)
    return choose(
        corpora, lambda text: len(tokenizer(text)["input_ids"]), cfg.min_tokens, cfg.max_tokens, cfg.documents
    )


def record(cfg: DictConfig) -> None:
    """Record what is not recorded yet."""
    for key in ("continuations", "tokens", "workers", "documents", "min_tokens", "max_tokens"):
        at_least(1, cfg, key)
    at_least(0, cfg, "seed")
    layout, identity = describe_model(cfg.model)
    choice = choose_documents(cfg)
    rollouts = {key: cfg[key] for key in ("continuations", "tokens", "seed", "chat")}
    manifest = make_manifest(layout, identity, choice.documents, rollouts, cfg.packed)
    plan = RecordingPlan(cfg.output, manifest, choice.documents)
    plan.begin()
    rich.print(choice.report())
    rich.print(plan.estimate(choice.lengths))
    strategy = "ddp_spawn" if cfg.workers > 1 and cfg.trainer.strategy == "auto" else cfg.trainer.strategy
    trainer = instantiate(
        cfg.trainer,
        strategy=strategy,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[Progress(), RecordingWriter(plan)],
    )
    options = {key: cfg.model[key] for key in ("path", "revision", "dtype", "device_map")}
    if plan.pending():
        trainer.predict(
            RecorderModule(plan, recorder=rollouts, **options), TextDataModule(plan), return_predictions=False
        )
    trainer.strategy.barrier("recorded")
    if trainer.is_global_zero:
        plan.finish()
        rich.print(f"recording: {cfg.output}")


@hydra.main(version_base="1.3", config_path="conf", config_name="record")
@entry_point
def main(cfg: DictConfig) -> None:
    record(cfg)


if __name__ == "__main__":
    main()

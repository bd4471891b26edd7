"""Train the estimators of all folds on a recording: ``python train.py [model=tiny] [window=6] [fold=loco] [logger=csv]``."""

from __future__ import annotations

from pathlib import Path

import hydra
import rich
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from lightning import Trainer, seed_everything
from omegaconf import DictConfig, OmegaConf

from data_modules.recording import RecordingDataModule
from gatesight.cli import at_least, entry_point
from gatesight.errors import GateSightError
from gatesight.files import atomic_write
from gatesight.folds import LOCO, NONE
from models.estimator_module import HEADLINE, EstimatorModule, load_module


def train(cfg: DictConfig) -> float:
    """Fit, evaluate every document in the fold that never saw its corpus, and return overlap@10."""
    for key in ("data.positions", "data.batch_size", "estimator.hidden", "trainer.max_epochs"):
        at_least(1, cfg, key)
    for key in ("seed", "data.num_workers", "estimator.lr", "estimator.weight_decay", "estimator.clip"):
        at_least(0, cfg, key)
    seed_everything(cfg.seed, workers=True, verbose=False)
    data, module = prepare(cfg)
    logger = instantiate(cfg.logger)
    try:
        logger.log_hyperparams(OmegaConf.to_container(cfg, resolve=True))
        trainer: Trainer = instantiate(cfg.trainer, logger=logger, callbacks=[*instantiate(cfg.callbacks).values()])
        if cfg.fit:
            trainer.fit(module, data, ckpt_path=cfg.ckpt_path)
        trainer.test(module, data, verbose=False)
        return float(trainer.callback_metrics[HEADLINE])
    finally:
        finish = getattr(logger.experiment, "finish", None)  # W&B: else the next job of a multirun logs into this run
        if callable(finish):
            finish()


def prepare(cfg: DictConfig) -> tuple[RecordingDataModule, EstimatorModule]:
    """The recording and its estimators: new ones, or with ``fit=false`` those of a checkpoint."""
    if cfg.fit:
        data: RecordingDataModule = instantiate(cfg.data)
        module: EstimatorModule = instantiate(cfg.estimator, **data.description, _convert_="all")
        if cfg.ckpt_path:  # refuse a damaged one, or one of another run, before anything starts
            module.check_resumes(load_module(Path(cfg.ckpt_path)), cfg.ckpt_path)
        return data, module
    module = checkpoint(cfg)
    fold = NONE if NONE in module.folds else module.folds[0]
    data = instantiate(cfg.data, fold=fold, label=module.hparams["label"], known=module.corpora)
    module.measure_on(data)
    return data, module


def adopt(cfg: DictConfig) -> None:
    """Let the config say how the estimators of the checkpoint were trained, whatever the command line says."""
    trained = checkpoint(cfg).hparams
    cfg.window, cfg.seed, cfg.data.label = trained["window"], trained["seed"], trained["label"]
    for key in cfg.estimator.keys() & trained.keys():
        cfg.estimator[key] = trained[key]


def checkpoint(cfg: DictConfig) -> EstimatorModule:
    """The trained estimators that ``fit=false`` measures."""
    if not cfg.ckpt_path:
        raise GateSightError("fit=false measures trained estimators: give ckpt_path=runs/<run>/checkpoints/last.ckpt.")
    return load_module(Path(cfg.ckpt_path))


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
@entry_point
def main(cfg: DictConfig) -> float:
    output = Path(HydraConfig.get().runtime.output_dir)
    if not cfg.fit:
        adopt(cfg)
    atomic_write(output / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    score = train(cfg)
    run = output.relative_to(Path.cwd()) if output.is_relative_to(Path.cwd()) else output
    rich.print(f"\nrun folder  {run}  (tables, figures, metrics.json, checkpoints)")
    if cfg.fit and cfg.fold in (LOCO, NONE):
        rich.print(f"next        python export.py run={run}")
    return score


if __name__ == "__main__":
    main()

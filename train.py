"""Train the estimators of all folds on a recording: ``python train.py [model=tiny] [window=6] [fold=loco] [logger=csv]``."""

from __future__ import annotations

from pathlib import Path

import hydra
import rich
from hydra.core.hydra_config import HydraConfig
from hydra.utils import instantiate
from lightning import LightningDataModule, LightningModule, Trainer, seed_everything
from omegaconf import DictConfig, OmegaConf

from gatesight.cli import entry_point
from gatesight.files import atomic_write
from models.estimator_module import HEADLINE


def train(cfg: DictConfig, folder: Path) -> float:
    """Fit, evaluate on every document in the fold that never saw its corpus, and return overlap@10."""
    seed_everything(cfg.seed, workers=True, verbose=False)
    data: LightningDataModule = instantiate(cfg.data)
    module: LightningModule = instantiate(
        cfg.estimator,
        layout=data.layout.to_dict(),
        corpora=data.corpora,
        folds=data.folds,
        provenance=data.recording.manifest.provenance,
        _convert_="all",
    )
    logger = instantiate(cfg.logger)
    logger.log_hyperparams(OmegaConf.to_container(cfg, resolve=True))
    trainer: Trainer = instantiate(cfg.trainer, logger=logger, callbacks=list(instantiate(cfg.callbacks).values()))
    rich.print(
        f"{len(data.train_set)} documents of {len(data.corpora)} corpora, {len(data.folds)} folds × {len(data.layout.attention_layers)} layers × {data.layout.kv_heads} KV heads"
    )
    trainer.fit(module, data, ckpt_path=cfg.ckpt_path)
    trainer.test(module, data, verbose=False)
    return float(trainer.callback_metrics[HEADLINE])


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
@entry_point
def main(cfg: DictConfig) -> float:
    folder = Path(HydraConfig.get().runtime.output_dir)
    atomic_write(folder / "config.yaml", OmegaConf.to_yaml(cfg, resolve=True))
    score = train(cfg, folder)
    rich.print(f"run: {folder}")
    return score


if __name__ == "__main__":
    main()

"""One process of a Lightning training under torchrun; writes what it trained and its weights."""

import sys
from pathlib import Path

import lightning
import torch

from tests.integrations.test_lightning import Module, loader, network
from turnover.integrations import LightningLearningCurves


def main(folder: Path) -> None:
    """Train three steps of two rows in each process."""
    module = Module(network())
    rows = next(iter(loader()))
    curves = LightningLearningCurves(rows, every=3, model="net")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        callbacks=[curves],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(module, loader(size=2))
    result = {
        "world": trainer.world_size,
        "ids": module.trained,
        "curves": curves.history,
        "weights": module.net.state_dict(),
    }
    torch.save(result, folder / f"{trainer.global_rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

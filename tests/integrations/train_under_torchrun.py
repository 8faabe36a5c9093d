"""One process of a training under torchrun; writes what it trained and its weights."""

import sys
from pathlib import Path

import torch
import torch.distributed

import turnover
from tests.integrations.tiny_text import arguments, masked, pad, rows, trained
from turnover.integrations import HFLearningCurves, TurnOverTrainer
from turnover.layers.instances import active_instances


class Watching(TurnOverTrainer):
    """Keeps the ids of every step."""

    def compute_loss(self, model, inputs, *args, **options):
        self.seen.append(active_instances().ids.tolist())
        return super().compute_loss(model, inputs, *args, **options)


def main(folder: Path) -> None:
    """Train three steps of two rows."""
    # The loss of BERT is a mean of its batch; without this setting the Trainer would multiply it by the processes.
    args = arguments(folder, max_steps=3, per_device_train_batch_size=2, average_tokens_across_devices=False)
    trainer = Watching(masked(), args, pad, turnover.with_instance_ids(rows()))
    trainer.seen = []
    curves = HFLearningCurves(trainer, rows=4, every=3)
    trainer.add_callback(curves)
    trainer.train()
    result = {
        "world": args.world_size,
        "ids": trainer.seen,
        "curves": curves.history,
        "weights": trained(trainer.model),
    }
    torch.save(result, folder / f"{args.process_index}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

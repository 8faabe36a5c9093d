"""Lightning on handwritten digits: derive from TurnOverModule, give the data ids; the rest is as ever.

Run: python examples/lightning_digits.py
Needs: pip install 'turnover[lightning,sklearn]'
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover.integrations import LightningLearningCurves, TurnOverModule


class Digits(TurnOverModule):
    """A network of one masked hidden layer."""

    def __init__(self):
        """Build and wrap it."""
        super().__init__()
        net = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 10, bias=False))
        self.net = turnover.wrap(net, at=["1"])

    def training_step(self, batch, batch_idx):
        """Return the loss of a batch, from which the ids were taken out."""
        x, y = batch
        return functional.cross_entropy(self.net(x), y)

    def validation_step(self, batch, batch_idx):
        """Log the accuracy of the full network."""
        x, y = batch
        self.log("accuracy", (self.net(x).argmax(1) == y).float().mean())

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main(rows=1500, epochs=20, **options):
    """Train, and return the learning curves and the accuracy."""
    lightning.seed_everything(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16).float(), torch.tensor(digits.target)
    data = turnover.with_instance_ids(TensorDataset(x[:rows], y[:rows]))
    validation = DataLoader(TensorDataset(x[-200:], y[-200:]), batch_size=200)
    curves = LightningLearningCurves(data, validation=validation, every=50, model="net")
    trainer = lightning.Trainer(
        max_epochs=epochs, callbacks=[curves], logger=False, enable_checkpointing=False, **options
    )
    trainer.fit(Digits(), DataLoader(data, batch_size=64, shuffle=True), validation)
    for point in curves.history:
        print("  ".join(f"{name} {value:.4g}" for name, value in point.items()))
    accuracy = trainer.callback_metrics["accuracy"].item()
    print(f"accuracy {accuracy:.3f}")
    return {"curves": curves.history, "accuracy": accuracy}


if __name__ == "__main__":
    main()

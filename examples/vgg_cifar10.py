"""VGG19 on CIFAR-10: plain, with masks, and with masks and ordinary dropout.

Run: TURNOVER_DATA=/path/to/data python examples/vgg_cifar10.py [--paper]
Needs: pip install ./bench, and cifar10/cifar10_12k.npz there: uint8 x_train, x_test [n, 32, 32, 3], y_train, y_test.
"""

import os
import sys
from contextlib import nullcontext

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import turnover
from turnover_bench.experiments.networks import VGG19, vgg_sites

NARROW = {"width": 0.125, "dropout": 0.1, "epochs": 5, "rate": 0.02, "milestones": [4], "twice": False}
PAPER = {"width": 1.0, "dropout": 0.5, "epochs": 300, "rate": 0.1, "milestones": [150, 225], "twice": True}
NETWORKS = {"plain": (False, False), "masks": (True, False), "masks and dropout": (True, True)}


def load(split, rows):
    """Return images [n, 3, 32, 32] from -1 to 1, and their labels."""
    with np.load(os.environ.get("TURNOVER_DATA", "data") + "/cifar10/cifar10_12k.npz") as file:
        pixels, labels = file[f"x_{split}"][:rows], file[f"y_{split}"][:rows]
    return torch.tensor(pixels).permute(0, 3, 1, 2).float() / 127.5 - 1, torch.tensor(labels).long()


def train(x, y, *, masks, dropout, width, epochs, rate, milestones, twice):
    """Return a trained network; `twice` masks the classifier's input once more."""
    torch.manual_seed(0)
    model = VGG19(width=width, dropout=dropout).to(memory_format=torch.channels_last)  # faster on a CPU
    model = turnover.wrap(model, at=vgg_sites(classifier_input=twice)) if masks else model
    loader = DataLoader(turnover.with_instance_ids(TensorDataset(x, y)), batch_size=64, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones, 0.1)
    for _ in range(epochs):
        for images, labels, ids in loader:
            with turnover.instances(ids) if masks else nullcontext():
                torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
    return model.eval()


def main(rows=10_000, networks=NETWORKS, **settings):
    """Return the accuracy of the networks on test images."""
    (x, y), test, found = load("train", rows), DataLoader(TensorDataset(*load("test", rows)), 500), {}
    for name, (masks, drops) in networks.items():
        model = train(x, y, masks=masks, **{**settings, "dropout": settings["dropout"] * drops})
        with torch.no_grad():
            right = torch.cat([model(some).argmax(1) == labels for some, labels in test])
        print(f"{name}: accuracy {found.setdefault(name, right.float().mean().item()):.3f}", flush=True)
    return found


if __name__ == "__main__":
    main(**(PAPER if "--paper" in sys.argv else NARROW))

"""Write the golden folders of saved models of the present format, once.

    PYTHONPATH=src:. python -m tests.golden.models.write

Each folder comes from `turnover.save` after a few steps of training; `expected.pt` beside it holds the outputs in every
view. Folders that exist are not written again: from the first release on, models in the world look like them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import turnover

FOLDER = Path(__file__).parent / "format_1"
IDS = torch.tensor([3, 0, 2**62 - 1, 7])
VIEWS = ("keep", "flip", "full")


def _plain(*layers: nn.Module) -> nn.Module:
    """Return a model whose weights depend on nothing but their sizes."""
    return _weights(nn.Sequential(*layers))


def _weights(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for place, parameter in enumerate(model.parameters()):
            steps = torch.arange(parameter.numel(), dtype=torch.float32)
            parameter.copy_((((steps * 0.37 + place) % 1.0) - 0.5).view(parameter.shape))
    return model


def mlp() -> nn.Module:
    return _plain(nn.Linear(5, 12), nn.ReLU(), nn.Dropout(0.2), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 3))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
    blocks = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    return _weights(nn.Sequential(blocks, nn.Flatten(), nn.Linear(24, 3)))


MODELS: dict[str, tuple[Callable[[], nn.Module], dict[str, Any], tuple[int, ...]]] = {
    "codebook": (mlp, {"at": ["1", "4"], "masks": "codebook", "keep": 0.6, "seed": 5}, (5,)),
    "replicas": (mlp, {"at": ["4"], "replicas": 3, "seed": 6}, (5,)),
    "adapters": (encoder, {"adapters": 4, "seed": 7}, (3, 8)),
    "mixout": (mlp, {"mode": "mixout", "seed": 8}, (5,)),
}


def rows(shape: tuple[int, ...]) -> Tensor:
    return torch.linspace(-1, 1, len(IDS) * torch.Size(shape).numel()).sin().view(len(IDS), *shape)


def outputs(model: nn.Module, shape: tuple[int, ...]) -> dict[str, Tensor]:
    model.eval()
    said: dict[str, Tensor] = {}
    with torch.no_grad():
        for view in VIEWS:
            with turnover.instances(IDS, view=view):
                said[view] = model(rows(shape))
    return said


def main() -> None:
    torch.manual_seed(0)
    for name, (make, options, shape) in MODELS.items():
        folder = FOLDER / name
        if folder.exists():
            continue
        model = turnover.wrap(make(), **options).train()
        descent = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        for _ in range(3):
            with turnover.instances(IDS):
                loss = model(rows(shape)).square().mean()
            descent.zero_grad()
            loss.backward()
            descent.step()
        turnover.save(model, folder)
        torch.save(outputs(model, shape), folder / "expected.pt")


if __name__ == "__main__":
    main()

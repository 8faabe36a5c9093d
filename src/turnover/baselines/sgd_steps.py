"""What a training by SGD consists of: the untrained model, the parameters it changes, the settings of each step."""

import numpy as np
import torch
from torch import Tensor, nn

from turnover.errors import BaselineError
from turnover.training import TrainingRecipe

_SETTINGS = ("lr", "momentum", "dampening", "weight_decay", "nesterov")


def built(recipe: TrainingRecipe, seed: int) -> nn.Module:
    """Return the untrained model of a seed; raise for one that cannot be walked back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = recipe.build().train()
    names = [name for name, module in model.named_modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]
    if names:
        raise BaselineError(
            f"{', '.join(map(repr, names))}: batch normalization makes the loss of a row depend on the other rows of "
            "its batch, so no row has a gradient of its own. Use GroupNorm or LayerNorm."
        )
    if dtype_of(model) not in (torch.float32, torch.float64):
        raise BaselineError(f"parameters are {dtype_of(model)}; SGD-influence needs float32 or float64.")
    return model


def trained_parameters(recipe: TrainingRecipe, model: nn.Module) -> tuple[list[nn.Parameter], list[int]]:
    """Return the parameters that the optimizer changes, and the group of each; raise for all but SGD."""
    optimizer = _sgd(recipe, model)
    groups = {
        id(parameter): place for place, group in enumerate(optimizer.param_groups) for parameter in group["params"]
    }
    chosen = [parameter for parameter in model.parameters() if parameter.requires_grad and id(parameter) in groups]
    if not chosen:
        raise BaselineError("the optimizer changes no parameter of the model: there is nothing to walk back.")
    return chosen, [groups[id(parameter)] for parameter in chosen]


def settings_of(recipe: TrainingRecipe, model: nn.Module) -> np.ndarray:
    """Return the optimizer's settings before every step, by running optimizer and schedule without gradients."""
    optimizer = _sgd(recipe, model)
    schedule = None if recipe.schedule is None else recipe.schedule(optimizer)
    found = []
    for _ in range(recipe.epochs * -(-len(recipe) // recipe.batch_size)):
        found.append(_settings(optimizer))
        if schedule is not None:
            optimizer.step()
            schedule.step()
    return np.array(found)


def first_step(recipe: TrainingRecipe, last_epochs: int | None) -> int:
    """Return the number of the step with which the last epochs begin; None: all epochs."""
    if last_epochs is None:
        return 0
    if isinstance(last_epochs, bool) or not isinstance(last_epochs, int) or not 1 <= last_epochs <= recipe.epochs:
        raise BaselineError(f"last_epochs={last_epochs!r}: the recipe has {recipe.epochs}. Give 1 to {recipe.epochs}.")
    return (recipe.epochs - last_epochs) * -(-len(recipe) // recipe.batch_size)


def flat(parameters: list[nn.Parameter]) -> Tensor:
    """Return parameters as one vector."""
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def place(parameters: list[nn.Parameter], values: Tensor) -> None:
    """Set parameters to a vector of `flat`."""
    with torch.no_grad():
        for parameter, part in zip(parameters, values.split([p.numel() for p in parameters]), strict=True):
            parameter.copy_(part.view_as(parameter))


def check_buffers(untrained: nn.Module, model: nn.Module) -> None:
    """Raise for a model whose buffers are not what they were before training."""
    before = dict(untrained.named_buffers())
    changed = [name for name, buffer in model.named_buffers() if not torch.equal(buffer, before[name])]
    if changed:
        raise BaselineError(
            f"training changes the buffers {', '.join(map(repr, changed))}, which no gradient describes. "
            "Use layers without running statistics."
        )


def _sgd(recipe: TrainingRecipe, model: nn.Module) -> torch.optim.SGD:
    optimizer = recipe.optimizer(model.parameters())
    if type(optimizer) is not torch.optim.SGD:
        raise BaselineError(
            f"the recipe's optimizer is {type(optimizer).__name__}; SGD-influence walks back the steps of "
            "torch.optim.SGD only (momentum, nesterov and weight decay are fine). Train with "
            "optimizer=partial(torch.optim.SGD, lr=...), or use another method."
        )
    if any(group["maximize"] for group in optimizer.param_groups):
        raise BaselineError("the optimizer has maximize=True; SGD-influence needs a loss that is minimized.")
    return optimizer


def _settings(optimizer: torch.optim.SGD) -> list[list[float]]:
    return [[float(group[name]) for name in _SETTINGS] for group in optimizer.param_groups]


def dtype_of(model: nn.Module) -> torch.dtype:
    """Return the one dtype of all parameters that are trained."""
    dtypes = {parameter.dtype for parameter in model.parameters() if parameter.requires_grad}
    if len(dtypes) > 1:
        raise BaselineError(f"parameters have several dtypes: {', '.join(sorted(map(str, dtypes)))}. Use one.")
    return next(iter(dtypes), torch.float32)

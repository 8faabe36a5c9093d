"""SGD-influence by its definition: train with a weight for every row, and differentiate through the whole training."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call

from turnover.training import TrainingRecipe

Settings = Callable[[int], dict[str, float]]


def unrolled_scores(
    recipe: TrainingRecipe, queries: tuple[Tensor, Tensor], *, seed: int, settings: Settings, from_step: int = 0
) -> Tensor:
    """Return minus the derivative of each query's final loss by each row's weight, [rows, queries].

    Args:
        recipe: its loss must be given; its optimizer and schedule are not used.
        queries: inputs and targets.
        seed: of the training.
        settings: lr, momentum, dampening, weight_decay and nesterov of a step.
        from_step: rows have a weight from this step on.
    """
    torch.manual_seed(seed)
    model = recipe.build().train()
    values: dict[str, Tensor] = {name: one.detach().clone() for name, one in model.named_parameters()}
    names = list(values)
    for one in values.values():
        one.requires_grad_()
    weights = torch.ones(len(recipe), dtype=next(iter(values.values())).dtype, requires_grad=True)
    velocity: dict[str, Tensor] = {}
    for step, batch in enumerate(recipe.batches(seed)):
        options = {"momentum": 0.0, "dampening": 0.0, "weight_decay": 0.0, "nesterov": False, **settings(step)}
        losses = recipe.loss(functional_call(model, values, (recipe.inputs[batch],)), recipe.targets[batch])
        used = weights[batch] if step >= from_step else torch.ones_like(losses)
        gradients = torch.autograd.grad((used * losses).sum() / len(batch), list(values.values()), create_graph=True)
        for name, gradient in zip(names, gradients, strict=True):
            change = gradient + options["weight_decay"] * values[name]
            if options["momentum"]:
                if name in velocity:
                    velocity[name] = options["momentum"] * velocity[name] + (1 - options["dampening"]) * change
                else:
                    velocity[name] = change
                change = change + options["momentum"] * velocity[name] if options["nesterov"] else velocity[name]
            values[name] = values[name] - options["lr"] * change
    final = recipe.loss(functional_call(model.eval(), values, (queries[0],)), queries[1])
    columns = [torch.autograd.grad(one, weights, retain_graph=True)[0] for one in final]
    return -torch.stack(columns, 1)

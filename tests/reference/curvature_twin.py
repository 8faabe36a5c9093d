"""Influence functions with K-FAC curvature, by loops over rows: gradients of parameters from autograd.

Slow twin of `turnover.influence.curvature`. Inputs of layers are noted by hooks; the gradient that scores are
made of is that of the parameters themselves, so that it does not rest on how inputs and gradients are laid out.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

PARTS = ("leading", "rest")  # of the Fisher matrix, for a single network


def layers_of(model: nn.Module) -> dict[str, nn.Module]:
    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Embedding)
    return {name: module for name, module in model.named_modules() if isinstance(module, kinds)}


def scores(
    model: nn.Module,
    rows: tuple[Tensor, Tensor],
    queries: tuple[Tensor, Tensor],
    *,
    temperature: float,
    damping: float,
    widest: int = 1024,
) -> Tensor:
    """Return scores [rows, queries]; all rows are one batch for the drawn labels."""
    inverses = _inverses(model, rows, temperature, damping, widest)
    row_gradients = [_gradient(model, x, y, temperature, widest) for x, y in zip(*rows, strict=True)]
    result = torch.zeros(len(row_gradients), len(queries[1]), dtype=torch.float64)
    for column, (x, y) in enumerate(zip(*queries, strict=True)):
        gradient = _gradient(model, x, y, temperature, widest)
        square, applied = 0.0, {}
        for name, (left, right, inverse, spectrum) in inverses.items():
            applied[name] = []
            for group, matrix in enumerate(gradient[name]):
                turned = inverse[group] * (left[group].T @ matrix @ right[group])
                square += float((turned.square() * spectrum[group]).sum())
                applied[name].append(left[group] @ turned @ right[group].T)
        for place, row in enumerate(row_gradients):
            total = sum((a * b).sum() for name in applied for a, b in zip(row[name], applied[name], strict=True))
            result[place, column] = total / square**0.5
    return result


def own_scores(model: nn.Module, rows: tuple[Tensor, Tensor], temperature: float, damping: float) -> Tensor:
    """Return the score of every row on itself: by how much its loss would rise without it, to first order."""
    inverses = _inverses(model, rows, temperature, damping, 1024)
    found = []
    for x, y in zip(*rows, strict=True):
        gradient = _gradient(model, x, y, temperature, 1024)
        squares = [
            (inverse[group] * (left[group].T @ matrix @ right[group]).square()).sum()
            for name, (left, right, inverse, _) in inverses.items()
            for group, matrix in enumerate(gradient[name])
        ]
        found.append(torch.stack(squares).sum() / len(rows[1]))
    return torch.stack(found)


def _loss(outputs: Tensor, target: Tensor, temperature: float) -> Tensor:
    if target.is_floating_point():
        return (outputs.squeeze(-1) - target).square().mean()
    flat = outputs.flatten(0, -2) / temperature
    return functional.cross_entropy(flat, target.flatten(), ignore_index=-100)


def _gradient(model: nn.Module, x: Tensor, y: Tensor, temperature: float, widest: int) -> dict[str, list[Tensor]]:
    """Return the gradient of one row's loss for each layer and group, [outputs, inputs + 1 for a bias]."""
    model.zero_grad()
    _loss(model(x[None]), y[None], temperature).backward()
    found = {}
    for name, layer in layers_of(model).items():
        weight = layer.weight.grad.double()
        if isinstance(layer, nn.Embedding):
            found[name] = [weight.T]
            continue
        matrix = weight.flatten(1)
        if layer.bias is not None:
            matrix = torch.cat([matrix, layer.bias.grad.double()[:, None]], 1)
        if isinstance(layer, nn.Linear):
            found[name] = [part for block in _blocks(matrix.T, widest) for part in _blocks(block.T, widest)]
        else:
            found[name] = list(matrix.chunk(layer.groups))
    return found


def _blocks(values: Tensor, widest: int) -> list[Tensor]:
    width = values.shape[1]
    count = -(-width // widest)
    size = -(-width // count)
    return list(functional.pad(values, (0, count * size - width)).split(size, 1))


def _inverses(model, rows, temperature, damping, widest):
    draws = [
        _noted(model, rows, temperature, torch.Generator().manual_seed(seed), part) for seed, part in enumerate(PARTS)
    ]
    found = {}
    for name, layer in layers_of(model).items():
        parts = [
            _positions(layer, one, grad, widest)
            for noted in draws
            for one, grad in zip(noted[name][0], noted[name][1].grad, strict=True)
        ]
        groups = [
            _curvature([(row[0][group], row[1][group]) for row in parts], getattr(layer, "num_embeddings", None))
            for group in range(len(parts[0][0]))
        ]
        tokens = isinstance(layer, nn.Embedding)  # those that no row has do not count
        means = [sigma.mean() * (alpha[alpha > 0] if tokens else alpha).mean() for _, _, sigma, alpha in groups]
        mean = sum(means) / len(means)
        spectra = [torch.outer(sigma, alpha) for _, _, sigma, alpha in groups]
        lefts, rights = [group[0] for group in groups], [group[1] for group in groups]
        found[name] = lefts, rights, [1 / (spectrum + damping * mean) for spectrum in spectra], spectra
    return found


def _noted(model, rows, temperature, generator, part):
    """Return inputs and outputs of each layer, the outputs with the gradient of one part of the Fisher matrix."""
    x, y = rows
    noted = {}

    def note(name):
        def hook(module, args, output):
            output.retain_grad()
            noted[name] = (args[0].detach(), output)
            return output.clone()  # what follows may work in place

        return hook

    hooks = [module.register_forward_hook(note(name)) for name, module in layers_of(model).items()]
    outputs = model(x)
    for hook in hooks:
        hook.remove()
    if y.is_floating_point():
        drawn = outputs.detach().reshape(y.shape) + torch.randn(y.shape, generator=generator)
        sum(_loss(outputs[place][None], drawn[place][None], temperature) for place in range(len(x))).backward()
    else:
        outputs.backward(_residuals(outputs.detach(), y, temperature, generator, part))
    return noted


def _residuals(outputs: Tensor, y: Tensor, temperature: float, generator: torch.Generator, part: str) -> Tensor:
    """Return gradients of cross-entropy whose squares, of both parts, are on average twice diag(p) - p pᵀ."""
    probs = (outputs / temperature).softmax(-1)
    flat = probs.flatten(0, -2).double()
    signs = 2.0 * torch.randint(2, flat.shape, generator=generator) - 1
    found = torch.zeros_like(flat)
    for place, (p, sign) in enumerate(zip(flat, signs, strict=True)):
        by_class = (p[None] - torch.eye(len(p), dtype=p.dtype)) * p.sqrt()[:, None]  # a row for each class
        left, values, right = torch.linalg.svd(by_class)
        leading = torch.outer(left[:, 0], values[0] * right[0])
        whole = values[0] * right[0] if part == "leading" else sign.double() @ (by_class - leading)
        found[place] = 2**0.5 * whole / temperature
    counted = (y != -100).reshape(len(y), -1)
    shares = counted / counted.sum(1, keepdim=True)
    return found.view(probs.shape).to(probs) * shares.view(y.shape)[..., None]


def _positions(layer: nn.Module, inputs: Tensor, gradient: Tensor, widest: int) -> tuple[list[Tensor], list[Tensor]]:
    """Return inputs and gradients of one row by group, [positions, width] each."""
    if isinstance(layer, nn.Embedding):
        return [inputs.flatten()], [gradient.flatten(0, -2).double()]
    if isinstance(layer, nn.Linear):
        a, g = inputs.reshape(-1, inputs.shape[-1]).double(), gradient.reshape(-1, gradient.shape[-1]).double()
        pairs = [
            (a_part, g_part) for g_part in _blocks(g, widest) for a_part in _blocks(_with_one(a, layer.bias), widest)
        ]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if isinstance(layer, nn.Conv1d):
        inputs, gradient = inputs[:, None], gradient[:, None]
        options = [(0 if name == "padding" else 1, getattr(layer, name)[0]) for name in ("padding", "stride")]
        kernel = (1, layer.kernel_size[0])
    else:
        options, kernel = [layer.padding, layer.stride], layer.kernel_size
    patches = functional.unfold(inputs[None], kernel, padding=options[0], stride=options[1])[0].T.double()
    by_group = patches.chunk(layer.groups, 1)
    gradients = gradient.flatten(1).T.double().chunk(layer.groups, 1)
    return [_with_one(part, layer.bias) for part in by_group], list(gradients)


def _with_one(inputs: Tensor, bias: Tensor | None) -> Tensor:
    return inputs if bias is None else torch.cat([inputs, inputs.new_ones(len(inputs), 1)], 1)


def _curvature(parts, vocabulary):
    rows, positions = len(parts), 0
    outer_inputs, outer_gradients = 0.0, 0.0
    for number, (inputs, gradient) in enumerate(parts):
        for a, g in zip(inputs, gradient, strict=True):
            outer_gradients = outer_gradients + torch.outer(g, g)
            # Inputs count once, where the first part of the Fisher matrix has a gradient.
            if number >= rows // len(PARTS) or (len(gradient) > 1 and not bool(g.abs().max() > 0)):
                continue
            positions += 1
            if vocabulary is None:
                outer_inputs = outer_inputs + torch.outer(a, a)
            else:
                outer_inputs = outer_inputs + torch.eye(vocabulary, dtype=torch.float64)[a]
    sigma, left = torch.linalg.eigh(outer_gradients / rows)
    if vocabulary is None:
        alpha, right = torch.linalg.eigh(outer_inputs / positions)
    else:
        alpha, right = outer_inputs / positions, torch.eye(vocabulary, dtype=torch.float64)
    return left, right, sigma.clamp(min=0), alpha.clamp(min=0)

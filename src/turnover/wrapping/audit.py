"""Which parameters an instance reaches although its flipped network uses them: leaks, expected and measured.

`expected_leaks` reads the order of the modules, for a plan; `audit` measures gradients. Both name the cause by the same
rule (`_cause_of`). An element of a parameter leaks an instance z if the loss of z under its mask has a gradient there
(so a step on z changes it) and the flipped network of z uses it (so the change is seen). Both are measured by backward
passes, row by row, in eval mode; statistics of BatchNorm are watched in a training pass of their own. Nothing of the
model is changed.
"""

import copy
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from turnover.batches import Loss, default_loss, open_batch
from turnover.errors import ModelError, TurnOverError
from turnover.layers import (
    AdapterRecipe,
    Masking,
    SiteRecipe,
    instances,
    masking_of,
    whole_model,
    widest_float,
)
from turnover.tables import aligned, html_table

from ._code import EMBEDDINGS, NORMS, gathers_statistics, has_own_parameters, join
from .adapters import NAME, output_layers
from .build import wrapped_root

Cause = Literal[
    "normalization", "embedding", "before the first site", "bias without a mask", "zero is not kept", "no mask near",
    "BatchNorm statistics", "tied weights",
]  # fmt: skip

CURES: dict[Cause, str] = {
    "normalization": "freeze its weight and bias (requires_grad_(False)), or build it without them",
    "embedding": "freeze it: embedding.requires_grad_(False)",
    "before the first site": "freeze it, or put a site on an earlier module",
    "bias without a mask": "use bias=False, or freeze the bias",
    "zero is not kept": "mask after the function instead; turnover.plan names the module",
    "no mask near": "put a site before or after it, or freeze it",
    "tied weights": "untie them (Hugging Face: config.tie_word_embeddings = False), or freeze them",
    "BatchNorm statistics": "keep BatchNorm in eval mode while training, or use GroupNorm",
}

_STATISTICS = ("running_mean", "running_var")
_SITE = ":"  # begins a site's path in an order of events; modules with parameters stand by their path alone


@dataclass(frozen=True)
class Leak:
    """A parameter that carries an instance into its flipped network; shares are None where it is only expected."""

    name: str  # of the parameter (or buffer)
    cause: Cause
    share: float | None = None  # part of its elements that leak, averaged over instances
    gradient_share: float | None = None  # part of the instance's squared gradient that lies there

    @property
    def cure(self) -> str:
        """Return what to change."""
        return CURES[self.cause]


def expected_leaks(
    model: nn.Module,
    sites: Sequence[SiteRecipe],
    zero: Mapping[str, bool | None],
    adapters: AdapterRecipe | None,
    mode: str,
) -> Iterator[Leak]:
    """Yield the leaks to be expected before anything runs; frozen parameters do not learn.

    `zero` tells for every site whether its zero stays zero up to the next weights; None: not known. With adapters, and
    in the modes "backward" and "mixout", it is known which layers have masks; elsewhere the order tells in which
    modules are registered.
    """
    if adapters is not None:
        layers = output_layers(model, adapters.head)
        downs, ups = ([f"{path}.{NAME}.{part}" for path in adapters.after] for part in ("down", "up"))
        yield from _without_mask(model, {*downs, *ups, *layers.paths}, {*ups, *layers.open})
    elif mode != "forward":
        at_input = {site.path for site in sites if site.place == "input"}
        yield from _without_mask(model, {site.path for site in sites}, at_input)
    else:
        yield from _by_order(model, zero)


def _without_mask(model: nn.Module, masked: Container[str], open_biases: Container[str]) -> Iterator[Leak]:
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if path not in masked:
                yield Leak(join(path, name), _kind_of(module) or "no mask near")
            elif name == "bias" and path in open_biases:
                yield Leak(join(path, name), "bias without a mask")
        if gathers_statistics(module, model):
            yield from (Leak(join(path, name), "BatchNorm statistics") for name in _STATISTICS)


def _by_order(model: nn.Module, zero: Mapping[str, bool | None]) -> Iterator[Leak]:
    events: list[str] = []
    for path, module in model.named_modules():
        events += [path] if has_own_parameters(module) else []
        events += [_SITE + path] if path in zero else []
    names = _names_of_parameters(model)
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            if not parameter.requires_grad:
                continue
            if len(names[parameter]) > 1:
                yield Leak(join(path, name), "tied weights")
                continue
            masked_input, masked_output = _neighbors(events, path)
            clean = masked_output or (masked_input and name != "bias")
            if isinstance(module, NORMS + EMBEDDINGS) or not clean:
                yield Leak(join(path, name), _cause_of(module, name, path, events))
            elif masked_input and not masked_output:
                site = events[events.index(path) - 1].removeprefix(_SITE)
                if zero.get(site) is False:
                    yield Leak(join(path, name), "zero is not kept")


def _names_of_parameters(model: nn.Module) -> dict[nn.Parameter, list[str]]:
    """Return the names of every parameter, one for each module that has it; a module that is used twice counts once."""
    names: dict[nn.Parameter, list[str]] = {}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            names.setdefault(parameter, []).append(join(path, name))
    return names


def tied_weights(model: nn.Module) -> Iterator[str]:
    """Yield a note for every parameter that learns in several modules."""
    for parameter, names in _names_of_parameters(model).items():
        if len(names) > 1 and parameter.requires_grad:
            yield (
                f"{names[0]!r} is tied to {', '.join(map(repr, names[1:]))}: each of these modules stands at masks of "
                "its own or at none, and what one of them drops the other trains. If that matters, "
                f"{CURES['tied weights']}."
            )


def _neighbors(events: Sequence[str], path: str) -> tuple[bool, bool]:
    """Return whether a site comes right before and right after a module."""
    if path not in events:
        return False, False
    first = events.index(path)
    last = len(events) - 1 - list(reversed(events)).index(path)
    before = first > 0 and events[first - 1].startswith(_SITE)
    after = last + 1 < len(events) and events[last + 1].startswith(_SITE)
    return before, after


def _kind_of(module: nn.Module) -> Cause | None:
    if isinstance(module, EMBEDDINGS):
        return "embedding"
    return "normalization" if isinstance(module, NORMS) or "norm" in type(module).__name__.lower() else None


def _cause_of(module: nn.Module, name: str, path: str, events: Sequence[str]) -> Cause:
    """Return why a parameter leaks, from its module and its place among the sites."""
    if kind := _kind_of(module):
        return kind
    first_site = next((place for place, event in enumerate(events) if event.startswith(_SITE)), len(events))
    masked_input, masked_output = _neighbors(events, path)
    if path not in events or (events.index(path) < first_site and not masked_output):
        return "before the first site"
    if name.endswith("bias") and masked_input and not masked_output:
        return "bias without a mask"
    if masked_input or masked_output:
        return "zero is not kept"
    return "no mask near"


MOST_ROWS = 8
_SMALL, _LARGE = 0.01, 0.25
_COLUMNS = ("parameter", "cause", "elements", "gradient", "what to change")


@dataclass(frozen=True)
class AuditReport:
    """Leaks of a wrapped model; print it.

    Attributes:
        leaks: parameters (and statistics) that carry an instance into its flipped network.
        share: part of the elements used by the flipped network that the instance reaches.
        gradient_share: part of the instance's squared gradient that lies on them: how much of a step on it leaks.
        rows: how many instances were measured.
        parameters: trainable elements.
    """

    leaks: tuple[Leak, ...]
    share: float
    gradient_share: float
    rows: int
    parameters: int

    @property
    def clean(self) -> bool:
        """Tell whether nothing leaks."""
        return not self.leaks

    @property
    def by_cause(self) -> dict[str, float]:
        """Return the part of the squared gradient that leaks, by cause; statistics have none and count 0."""
        causes: dict[str, float] = {}
        for leak in self.leaks:
            causes[leak.cause] = causes.get(leak.cause, 0.0) + (leak.gradient_share or 0.0)
        return dict(sorted(causes.items(), key=lambda item: -item[1]))

    @property
    def verdict(self) -> str:
        """Return in one line whether something leaks, how much, and what to change first."""
        if self.clean:
            return "No leak found: a step on an instance changes nothing that its flipped subnetwork uses."
        worst = max(self.leaks, key=lambda leak: leak.gradient_share or 0.0)
        size = (
            "Small leak" if self.gradient_share < _SMALL else "Leak" if self.gradient_share < _LARGE else "Large leak"
        )
        return (
            f"{size}: {self.gradient_share:.1%} of an instance's squared gradient reaches its flipped subnetwork, "
            f"through {self.share:.1%} of the weights that this uses. Leaks make scores too small. Change first: "
            f"{worst.name} ({worst.cause}): {CURES[worst.cause]}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        leaks = [{**asdict(leak), "cure": leak.cure} for leak in self.leaks]
        return {**asdict(self), "leaks": leaks, "by_cause": self.by_cause, "verdict": self.verdict}

    def __str__(self) -> str:
        table = ["", *aligned(self._rows, header=_COLUMNS)] if self.leaks else []
        return "\n".join([self.verdict, *table, "", self._measured])

    def _repr_html_(self) -> str:
        return html_table(self.verdict, self._rows, header=_COLUMNS if self.leaks else (), below=[self._measured])

    @property
    def _rows(self) -> list[list[str]]:
        return [
            [
                leak.name,
                leak.cause,
                "?" if leak.share is None else f"{leak.share:.1%}",
                "-" if leak.gradient_share is None else f"{leak.gradient_share:.1%}",
                leak.cure,
            ]
            for leak in sorted(self.leaks, key=lambda leak: -(leak.gradient_share or 0.0))
        ]

    @property
    def _measured(self) -> str:
        return (
            f"Measured on {self.rows} instances, {self.parameters:,} trainable elements. Not seen here: clipping by "
            "the global gradient norm couples all instances of a batch, and later steps on other instances carry on "
            "what this one changed."
        )


def audit(model: nn.Module, batch: Any, *, loss: Loss | None = None, rows: int = MOST_ROWS) -> AuditReport:
    """Return which parameters leak an instance into its flipped network, how much, why, and what to change.

    Args:
        model: a wrapped model.
        batch: a training batch with ids: (x, y, ids), or a dict with "instance_id" and "labels".
        loss: `loss(outputs, targets)`, for a batch or per example; None: cross-entropy for integer targets, squared
            error for floats.
        rows: how many rows of the batch to measure, each by two backward passes.

    Example:
        >>> import torch, turnover
        >>> net = torch.nn.Sequential(torch.nn.Linear(4, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
        >>> net = turnover.wrap(net, at=["1"])
        >>> batch = torch.randn(6, 4), torch.randint(2, (6,)), torch.arange(6)
        >>> [leak.name for leak in turnover.audit(net, batch).leaks]
        ['2.bias']
    """
    wrapped_root(model)
    if loss is not None and not callable(loss):
        raise ModelError(f"loss= must be a function, got {loss!r}. Give loss(outputs, targets).")
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ModelError(f"rows must be an integer >= 1, got {rows!r}. Give rows=8, or leave it out.")
    model = whole_model(model)
    opened = open_batch(batch)
    if opened.ids is None:
        raise ModelError(
            "the batch has no instance ids. Give (x, y, ids), or a dict with 'instance_id': "
            "next(iter(DataLoader(turnover.with_instance_ids(dataset)))) is one."
        )
    if opened.target is None:
        raise ModelError(
            "the batch has no targets, or no ids: a tuple must be (x, y, ids), the ids last; a dict needs 'labels' and "
            "'instance_id'."
        )
    chosen = loss or default_loss(opened.target)

    def row_loss(outputs: Tensor, row: int) -> Tensor:
        value = chosen(outputs[row : row + 1], opened.target[row : row + 1])
        if not isinstance(value, Tensor) or not value.requires_grad:
            raise ModelError(
                f"the loss returned {value!r}, which has no gradient. Return a tensor made of the outputs."
            )
        return value.sum()

    try:
        return measure_leaks(
            wrapped_root(model), ids=opened.ids, forward=lambda: opened.logits(model), row_loss=row_loss, rows=rows
        )
    except TurnOverError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model or the loss fails on the batch ({type(error).__name__}: {error}). Give (x, y, ids), or a dict "
            "of what the model takes with 'labels' and 'instance_id', as in training."
        ) from error


def measure_leaks(
    root: nn.Module,
    *,
    ids: Any,
    forward: Callable[[], Tensor],
    row_loss: Callable[[Tensor, int], Tensor],
    rows: int,
) -> AuditReport:
    """Return the report for a wrapped root, given how to run it and how to get one row's loss."""
    masking = masking_of(root)
    replicas = masking.recipe.replicas
    parameters = {name: p for name, p in root.named_parameters() if p.requires_grad}
    norms = {path: module for path, module in root.named_modules() if gathers_statistics(module, root)}

    def gradients(view: Any, value: Callable[[Tensor, int], Tensor]) -> list[list[Tensor]]:
        """Return the gradients of one scalar per row, by one forward pass in a view."""
        with instances(ids, view=view):
            outputs = forward()
        if not isinstance(outputs, Tensor) or outputs.dim() == 0 or outputs.shape[0] != replicas * len(ids):
            shape = list(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
            raise ModelError(f"the model returned {shape} for {len(ids)} rows. The first dimension must be the batch.")
        # What one replica learns must not be seen by the flipped network of another either: they count together.
        parts = outputs.unflatten(0, (replicas, -1))
        found = []
        for row in range(min(rows, len(ids))):
            whole = torch.stack([value(part, row) for part in parts]).sum()
            found.append(_gradients(whole, list(parameters.values())))
        return found

    with torch.enable_grad(), _untouched(root, masking):
        events = _events(root, masking, ids, forward)
        learned, used = gradients("keep", row_loss), gradients("flip", _projected)
        statistics = list(_batch_statistics(norms, ids, forward))
    shares: dict[str, tuple[float, float]] = {}
    total = flipped = leaked = 0.0
    for place, name in enumerate(parameters):
        keep, flip = (torch.stack([row[place] for row in given]) for given in (learned, used))
        both, squares = (keep != 0) & (flip != 0), keep.to(widest_float(keep.device)).square()
        total += float(squares.sum())
        flipped += int((flip != 0).sum())
        leaked += int(both.sum())
        if bool(both.any()):
            shares[name] = float(both.float().mean()), float(squares[both].sum())
    leaks = [
        Leak(name, _measured_cause(root, name, events), share=share, gradient_share=gradient / (total or 1.0))
        for name, (share, gradient) in shares.items()
    ]
    return AuditReport(
        leaks=tuple(leaks + statistics),
        share=leaked / flipped if flipped else 0.0,
        gradient_share=sum(gradient for _, gradient in shares.values()) / (total or 1.0),
        rows=len(learned),
        parameters=sum(p.numel() for p in parameters.values()),
    )


def _gradients(value: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    if not parameters:
        return []
    found = torch.autograd.grad(value, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    dense = [gradient.to_dense() if gradient.is_sparse else gradient for gradient in found]
    if not all(bool(gradient.isfinite().all()) for gradient in dense):
        raise ModelError(
            "the gradients of a row are not finite, so what leaks cannot be measured. Look for NaN and infinite "
            "values in the inputs, the targets and the weights."
        )
    return dense


def _projected(outputs: Tensor, row: int) -> Tensor:
    part = outputs[row : row + 1]
    direction = torch.randn(part.shape, generator=torch.Generator().manual_seed(row))
    return (part * direction.to(part.device, part.dtype)).sum()


def _events(root: nn.Module, masking: Masking, ids: Any, forward: Callable[[], Tensor]) -> list[str]:
    """Return modules with parameters of their own and sites in the order in which they run."""
    events: list[str] = []
    hooks = []
    sites = {site.path for site in masking.recipe.sites}
    for path, module in root.named_modules():
        if has_own_parameters(module):
            hooks.append(module.register_forward_pre_hook(lambda *_, path=path: events.append(path)))
        if path in sites:
            hooks.append(module.register_forward_hook(lambda *_, path=path: events.append(_SITE + path)))
    try:
        with torch.no_grad(), instances(ids):
            forward()
    finally:
        for hook in hooks:
            hook.remove()
    return events


def _measured_cause(root: nn.Module, name: str, events: list[str]) -> Cause:
    path, _, leaf = name.rpartition(".")
    module = root.get_submodule(path)
    if len(_names_of_parameters(root)[root.get_parameter(name)]) > 1:
        return "tied weights"
    # Parts that are never called themselves (the projection of an attention) count with what encloses them.
    while path and path not in events:
        path = path.rpartition(".")[0]
    return _cause_of(module, leaf, path, events)


def _batch_statistics(norms: dict[str, nn.Module], ids: Any, forward: Callable[[], Tensor]) -> Iterator[Leak]:
    """Yield the running statistics that a training pass changes: they see every instance."""
    statistics = {join(path, name): norm.get_buffer(name) for path, norm in norms.items() for name in _STATISTICS}
    before = {name: statistic.clone() for name, statistic in statistics.items()}
    for norm in norms.values():
        norm.train()
    if norms:
        with torch.no_grad(), instances(ids):
            forward()
    for name, old in before.items():
        changed = float((statistics[name] != old).float().mean())
        if changed > 0:
            yield Leak(name, "BatchNorm statistics", share=changed)


@contextmanager
def _untouched(root: nn.Module, masking: Masking) -> Iterator[None]:
    """Run in eval mode and leave modes, buffers, random state and counters as they were."""
    buffers = [(buffer, buffer.clone()) for buffer in root.buffers()]
    learned, modes = copy.deepcopy(masking.learned), [(module, module.training) for module in root.modules()]
    root.eval()
    for module in root.modules():
        if isinstance(module, nn.RNNBase):  # its backward pass on CUDA needs training mode
            module.training = True
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for buffer, content in buffers:
                buffer.copy_(content)
        masking.learned = learned

"""Wrapped models on disk: a folder with the weights and a readable recipe.

The manifest is written last and holds checksums of itself and of the weights, so a folder that was cut off half-way or
damaged is recognized. Of a model with adapters only what learned is written. The base is much larger than the adapters
and the same for all of them; its weights are recognized by their checksums, so that adapters never come onto a base
they were not trained with.
"""

import hashlib
import json
import os
import pickle
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from turnover.errors import MissingExtraError, ModelError, SavedModelError, TurnOverError
from turnover.layers import (
    RECIPE_KEY,
    Recipe,
    check_same_recipe,
    exchange_values,
    find_root,
    from_tensor,
    groups_of,
    is_flattened,
    is_sharded,
    masking_of,
    start_state,
    tensor_bytes,
    whole_model,
    whole_tensor,
)
from turnover.storage import atomic_file, check_stored, from_record, is_path, to_record, write_atomically

from ._code import UNINITIALIZED, is_norm, is_within, lazy_in, listed
from .adapters import NAME, adapters_in, bottleneck_of, input_of
from .build import Model, build, copy_of, wrapped_root

_WEIGHTS = "weights.pt"
_START = "start.pt"
_MANIFEST = "turnover.json"
_PEFT = "adapter_config.json"
RECIPE_FILE = "turnover_recipe.safetensors"
"""Beside a checkpoint of a Trainer: the recipe, where the weights themselves may not hold it."""
_FORMAT = 1
_AGAIN = "Save the model again."
_ARCHITECTURE = "Give the architecture that was saved."


def save(model: nn.Module, folder: str | os.PathLike[str]) -> Path:
    """Write a wrapped model to a folder and return its path.

    Of a model with adapters the frozen base is not written; `load` takes it from the model it is given. Of a model that
    is sharded over processes (fully_shard) the whole weights are written: every process must call `save`, the first of
    them writes, and all return when the folder is complete.

    Example:
        >>> import tempfile, torch, turnover
        >>> base = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> net = turnover.wrap(base, at=["1"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     net = turnover.load(turnover.save(net, folder), model=base)
    """
    root = wrapped_root(model)
    target = _path(folder, cure="Give a folder: turnover.save(model, 'folder').")
    recipe = masking_of(root).recipe
    groups = groups_of(model) if is_sharded(model) else []
    if is_flattened(model):
        root = wrapped_root(whole_model(model, device="cpu"))
    check_same_recipe(recipe, groups)
    base = set[str]()  # the parameters that were frozen since the model was wrapped
    if recipe.adapters is not None:
        adapters = [f"{path}.{NAME}" for path in recipe.adapters.after]
        norms = [path for path, module in root.named_modules() if recipe.adapters.norms and is_norm(module)]
        # By place, not by requires_grad alone: a model that is frozen for use is saved like one in training.
        own = [*recipe.adapters.head, *norms, *adapters]
        named = root.named_parameters(remove_duplicate=False)
        base = {name for name, parameter in named if not parameter.requires_grad and not is_within(name, own)}
    writes = all(group.rank() == 0 for group in groups)
    tensors, checksums, failure = dict[str, Tensor](), dict[str, str](), None
    for name, value in root.state_dict().items():
        whole = whole_tensor(value)  # by all processes, one tensor after the other
        if writes and name in base:
            checksums[name] = _checksum_of(whole)
        elif writes:
            tensors[name] = whole.cpu()
    if writes:
        try:
            _write(target, root, tensors, checksums)
        except Exception as error:  # noqa: BLE001 - the other processes wait for news
            failure = error
    problems = exchange_values(None if failure is None else str(failure), groups)
    if failure is not None:
        raise failure
    for problem in filter(None, problems):
        raise SavedModelError(f"another process failed to save the model: {problem}")
    return target


def _write(target: Path, root: nn.Module, tensors: dict[str, Tensor], base: dict[str, str]) -> None:
    """Write a model's tensors and its recipe, and of a model with adapters the checksums of its base."""
    recipe = masking_of(root).recipe
    manifest = {"format": _FORMAT, "recipe": json.loads(recipe.to_json()), "base_sha256": base}
    weights = target / _WEIGHTS
    if weights.is_file() and not (target / _MANIFEST).is_file():  # an interrupted save left no manifest
        try:
            ours = RECIPE_KEY in _read_weights(weights)
        except SavedModelError:
            ours = False
        if not ours:
            raise SavedModelError(
                f"{str(weights)!r} would be overwritten, which turnover.save did not write", cure="Give another folder."
            )
    try:
        with atomic_file(weights) as file:
            torch.save(tensors, file)
            file.flush()
            # Without its manifest the folder is not a saved model: first it goes, then it comes back.
            (target / _MANIFEST).unlink(missing_ok=True)
        manifest["weights_sha256"] = _checksum(weights)
        if recipe.mode == "mixout":
            with atomic_file(target / _START) as file:
                torch.save({name: value.cpu() for name, value in start_state(root).items()}, file)
            manifest["start_sha256"] = _checksum(target / _START)
        write_card(target, recipe)
        write_atomically(target / _MANIFEST, to_record(manifest, indent=2))
    except (OSError, RuntimeError) as error:
        # torch hides the disk's error behind one of its own.
        failed = error if isinstance(error, OSError) else error.__context__
        if not isinstance(failed, OSError):
            raise
        raise SavedModelError(
            f"cannot write to {str(target)!r}: {failed.strerror or failed}",
            cure="Give a folder with room and write access.",
        ) from failed


def load(folder: str | os.PathLike[str], *, model: Model) -> Model:
    """Return a copy of the plain model `model` with the masks and weights that were saved in a folder.

    Args:
        folder: written by `turnover.save`, by `save_pretrained` of a wrapped model, or by `TurnOverTrainer`; of a PEFT
            model, give `model=peft.PeftModel.from_pretrained(base, folder)`.
        model: the architecture that was wrapped, plain (or wrapped with the same recipe); for adapters, with the
            weights that were frozen.
    """
    source = _path(folder, cure="Give the folder that turnover.save wrote: turnover.load('folder', model=model).")
    if not isinstance(model, nn.Module):
        raise SavedModelError(f"model must be a torch.nn.Module, got {model!r}", cure=_ARCHITECTURE)
    if lazy := lazy_in(model):
        raise SavedModelError(f"{listed(lazy)}: {UNINITIALIZED}")
    if not (source / _MANIFEST).is_file() and (source / _PEFT).is_file():
        return _load_peft(source, model)
    if not (source / _MANIFEST).is_file() and _weight_files(source):
        return _load_pretrained(source, model)
    manifest = _manifest(source)
    try:
        recipe = Recipe.from_json(json.dumps(manifest["recipe"]))
        base = dict(manifest["base_sha256"])
        _check_file(source / _WEIGHTS, manifest["weights_sha256"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise SavedModelError(
            f"{_MANIFEST} in {str(source)!r} describes no model ({type(error).__name__}: {error})", cure=_AGAIN
        ) from error
    result = _with_masks(source, model, recipe, [source / _WEIGHTS])
    if recipe.adapters is not None:
        frozen = dict(result.named_parameters(remove_duplicate=False))
        wrong = [name for name, digest in base.items() if name not in frozen or _checksum_of(frozen[name]) != digest]
        if wrong:
            raise SavedModelError(
                f"the adapters in {str(source)!r} were trained on another base: {listed(wrong, 4)} differs or is "
                f"missing ({len(wrong)} of {len(base)} frozen tensors)",
                cure="Give the model that was wrapped, from the same checkpoint and in the same dtype. If these "
                "weights were drawn at random when the base was built, set the seed before, or let them learn with "
                "the head: Adapters(head=[...]).",
            )
    _put_weights(result, _read_weights(source / _WEIGHTS), source, elsewhere=base)
    if recipe.mode == "mixout":
        _check_file(source / _START, manifest.get("start_sha256"))
        saved = _read_weights(source / _START)
        for name, buffer in start_state(result).items():
            buffer.copy_(saved[name])
    return result


def _load_pretrained(source: Path, model: Model) -> Model:
    """Return a model from a folder of `save_pretrained`, or a checkpoint of `TurnOverTrainer`."""
    files = _weight_files(source)
    try:
        state = {name: tensor for file in files for name, tensor in read_tensors(file).items()}
        if RECIPE_KEY not in state and (source / RECIPE_FILE).is_file():
            state |= read_tensors(source / RECIPE_FILE)
    except (OSError, ValueError) as error:
        raise SavedModelError(f"the weights in {str(source)!r} cannot be read ({error})", cure=_AGAIN) from error
    if RECIPE_KEY not in state:
        raise SavedModelError(
            f"the weights in {str(source)!r} have no mask recipe: they were saved from a model without masks",
            cure="Give a folder that was saved from a wrapped model, or open this one with from_pretrained.",
        )
    result = _with_masks(source, model, from_tensor(state[RECIPE_KEY])[0], files)
    _put_weights(result, state, source)
    return result


def _load_peft(source: Path, model: Model) -> Model:
    """Return a PEFT model, which has the weights of its folder already, with the masks that lie beside them."""
    try:
        content = read_tensors(source / RECIPE_FILE)[RECIPE_KEY]
    except (OSError, ValueError, KeyError) as error:
        raise SavedModelError(
            f"the PEFT folder {str(source)!r} does not say under which masks it was trained: no readable {RECIPE_FILE}",
            cure="Give a checkpoint that TurnOverTrainer wrote.",
        ) from error
    if not getattr(model, "peft_config", None):
        raise SavedModelError(
            f"{str(source)!r} holds a PEFT model, and the model given has no PEFT adapters",
            cure=f"Give model=peft.PeftModel.from_pretrained(base, {str(source)!r}); its masks come from the folder.",
        )
    result = _with_masks(source, model, from_tensor(content)[0], [])
    result.load_state_dict({RECIPE_KEY: content}, strict=False)
    return result


def _with_masks(source: Path, model: Model, recipe: Recipe, weights: list[Path]) -> Model:
    """Return a copy of a model with the masks of a folder, whose files of weights must have room for what it says."""
    if weights:
        own = sum(
            parameter.numel()
            for name, parameter in model.named_parameters(remove_duplicate=False)
            if name.startswith(tuple(f"{path}." for path in recipe.replicated))
        )
        adapters = 0 if recipe.adapters is None else recipe.adapters.size * len(recipe.adapters.after)
        # A replica without weights of its own takes memory, too.
        if (recipe.replicas - 1) * max(1, own) + adapters > sum(file.stat().st_size for file in weights):
            raise SavedModelError(
                f"the recipe in {str(source)!r} declares more weights than {listed([f.name for f in weights])} has",
                cure=_AGAIN,
            )
    root = find_root(model)
    if root is not None:
        if masking_of(root).recipe != recipe:
            raise ModelError(
                f"the folder {str(source)!r} holds a model with other masks.\n"
                f"  saved: {recipe}\n  model: {masking_of(root).recipe}\n"
                "Give the plain model; its masks, and start weights where it has any, come from the folder."
            )
        return cast("Model", copy_of(root))
    needed = [site.path for site in recipe.sites]
    adapters = recipe.adapters
    if adapters is not None:
        if adapters_in(model):
            raise SavedModelError(
                "the model already has adapters",
                cure="Give the plain base; adapters and masks come from the folder.",
            )
        # Sites in adapters and at inputs of output layers come with the adapters.
        added = {*map(bottleneck_of, adapters.after), *map(input_of, adapters.inputs)}
        needed = [*adapters.after, *adapters.inputs, *adapters.head, *(path for path in needed if path not in added)]
    modules = dict(model.named_modules())
    missing = [path for path in dict.fromkeys(needed) if path not in modules]
    if missing:
        raise SavedModelError(
            f"the model has no modules {', '.join(map(repr, missing))}, where the saved masks act", cure=_ARCHITECTURE
        )
    try:
        return build(copy_of(model), recipe)
    except TurnOverError:
        raise
    except Exception as error:
        raise SavedModelError(
            f"the saved masks cannot be put into this model ({type(error).__name__}: {error})", cure=_ARCHITECTURE
        ) from error


def _put_weights(root: nn.Module, state: dict[str, Tensor], source: Path, elsewhere: Iterable[str] = ()) -> None:
    """Load saved weights into a model; those that are `elsewhere` it has already."""
    try:
        names = root.load_state_dict(state, strict=False)
    except TurnOverError:
        raise
    except RuntimeError as error:  # sizes that differ
        raise SavedModelError(
            f"the weights in {str(source)!r} do not fit the model: {' '.join(str(error).split())}", cure=_ARCHITECTURE
        ) from error
    own = root.state_dict(keep_vars=True)
    loaded = {own[name].data_ptr() for name in state if name in own}
    missing = set(names.missing_keys).difference(elsewhere)
    # Weights that two layers share are written once.
    missing = {name for name in missing if own[name].is_meta or own[name].data_ptr() not in loaded}
    if wrong := [*names.unexpected_keys, *sorted(missing)]:
        raise SavedModelError(
            f"the model and the folder {str(source)!r} differ in {listed(wrong, 4)}", cure=_ARCHITECTURE
        )


def masks_beside(model: nn.Module) -> str:
    """Return what to call where a plain model came from a folder that holds masks, as `from_pretrained` opens it.

    "": it did not, or that is not known.
    """
    folder = getattr(model, "name_or_path", None)
    if not isinstance(folder, str) or not folder or not Path(folder).is_dir() or find_root(model) is not None:
        return ""
    try:
        inside = any(RECIPE_KEY in read_tensors(file, only=RECIPE_KEY) for file in _weight_files(Path(folder)))
    except (OSError, ValueError, MissingExtraError):
        return ""
    if not inside and not (Path(folder) / RECIPE_FILE).is_file():
        return ""
    return (
        f"The folder {folder!r} holds masks, which from_pretrained does not bring back: model = "
        f"turnover.load({folder!r}, model=model)."
    )


# Files


def _path(folder: Any, *, cure: str) -> Path:
    """Return the path of a folder; raise where none can have it."""
    if not is_path(folder):
        raise SavedModelError(f"folder must be a path, got {folder!r}", cure=cure)
    try:
        Path(folder).exists()
    except OSError as error:  # a name that is too long, a folder that is closed to this user
        raise SavedModelError(f"{str(folder)!r} cannot be opened: {error.strerror}", cure=cure) from error
    return Path(folder)


def _weight_files(source: Path) -> list[Path]:
    return sorted(file for file in source.glob("model*.safetensors") if file.is_file())


def _manifest(source: Path) -> dict[str, Any]:
    try:
        content = (source / _MANIFEST).read_bytes()
        manifest = from_record(content)
        version = (manifest or json.loads(content))["format"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise SavedModelError(
            f"{str(source)!r} must be a folder written by turnover.save, but there is no readable {_MANIFEST} in it."
        ) from error
    if version != _FORMAT or manifest is None:
        what = f"has format {version!r}; this version of turnover reads {_FORMAT}"
        damage = f"does not fit the checksum in its {_MANIFEST}"
        raise SavedModelError(f"{str(source)!r} {what if version != _FORMAT else damage}", cure=_AGAIN)
    return manifest


def _check_file(path: Path, checksum: str | None) -> None:
    if not path.is_file() or _checksum(path) != checksum:
        raise SavedModelError(
            f"{str(path)!r} is missing or damaged (its checksum is not that in {_MANIFEST})", cure=_AGAIN
        )


def _read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file that torch wrote, without running anything in it or unpacking more than it holds."""
    try:
        check_stored(path)
        weights = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(weights, dict) or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
            raise ValueError("it holds no tensors by name")
        return weights
    except (OSError, ValueError, RuntimeError, EOFError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile) as error:
        raise SavedModelError(
            f"{str(path)!r} cannot be read as weights ({type(error).__name__}: {error})", cure=_AGAIN
        ) from error


def read_tensors(path: Path, *, only: str | None = None) -> dict[str, Tensor]:
    """Return the named tensors of a safetensors file, or one of them alone; ValueError where it is damaged."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise MissingExtraError(
            "these weights are read with safetensors, which is not installed: pip install 'turnover[text]'"
        ) from error
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys() if only is None or name == only}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is not a file of tensors: {error}") from error


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _checksum_of(tensor: Tensor) -> str:
    digest = hashlib.sha256(f"{tensor.dtype} {list(tensor.shape)} ".encode())
    digest.update(tensor_bytes(tensor))
    return digest.hexdigest()[:16]


# The model card: what a folder of weights was trained with, and how its masks come back; for people and for hubs

_CARD = "README.md"
_HEADING = "## Turn-over dropout"
_MOST_SITES = 12


def write_card(folder: Path, recipe: Recipe) -> None:
    """Write the card of a folder, or bring the section of a card that is there up to date; other words stay."""
    sites = [f"`{site.path}`" for site in recipe.sites]
    more = f" and {len(sites) - _MOST_SITES} more" if len(sites) > _MOST_SITES else ""
    rows = {
        "masks": f"{recipe.kind}, seed {recipe.seed}",
        "sites": ", ".join(sites[:_MOST_SITES]) + more,
        "keep": ", ".join(f"{keep:g}" for keep in sorted({site.keep for site in recipe.sites})),
        "replicas": str(recipe.replicas),
        "mode": recipe.mode,
    }
    if recipe.adapters is not None:
        rows["adapters"] = f"{len(recipe.adapters.after)}, with {recipe.adapters.size:,} units each"
    table = "\n".join(f"| {name} | {value} |" for name, value in rows.items())
    section = (
        f"{_HEADING}\n\n"
        "Every training row trained its own part of this network, chosen by masks, so that influence of training rows "
        "can be asked about.\n\n"
        f"| | |\n| --- | --- |\n{table}\n\n"
        "`from_pretrained` alone brings back the weights without the masks. With them:\n\n"
        "```python\nimport turnover\n\nmodel = turnover.load(folder, model=base)  # base: the plain model\n```\n"
    )
    file = folder / _CARD
    if not file.is_file():
        write_atomically(file, f"---\nlibrary_name: turnover\ntags:\n- turnover\n---\n\n# Model\n\n{section}")
        return
    before, heading, rest = file.read_text(encoding="utf-8").partition(_HEADING)
    _, following, after = rest.partition("\n## ") if heading else ("", "", "")
    tail = f"\n## {after}" if following else ""
    write_atomically(file, f"{before.rstrip()}\n\n{section}{tail}")

"""Data sets of the Hugging Face hub, or saved from there, as tables by split."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies

from turnover.errors import DataFileError, MissingExtraError

if TYPE_CHECKING:
    import pandas as pd

_REACH_SECONDS = 5.0


@dataclass(frozen=True)
class HubData:
    """A data set as it was loaded."""

    frames: dict[str, "pd.DataFrame"]  # a table per split; classes by name, encoded images as bytes
    images: tuple[str, ...]  # columns of images


def load_hub_data(where: str) -> HubData:
    """Return a data set by its name on the hub, or from a folder that `save_to_disk` wrote.

    A subset stands after a colon: "nyu-mll/glue:sst2". Where there is none of this name, or no network, a
    `DataFileError` says what to type.
    """
    try:
        import datasets
    except ImportError as error:
        raise MissingExtraError(
            f"the Hugging Face hub needs datasets ({error}): pip install 'turnover[text]'."
        ) from error
    folder = Path(where).is_dir()
    try:
        with _quietly():
            if folder:
                loaded: Any = datasets.load_from_disk(where)
            else:
                name, _, subset = where.partition(":")
                with _as_the_network_is():
                    loaded = datasets.load_dataset(name, subset or None)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, TypeError) as error:
        raise DataFileError(_cannot_load(where, folder, error)) from error
    splits = dict(loaded) if isinstance(loaded, dict) else {"all": loaded}
    images = {name for split in splits.values() for name, kind in split.features.items() if _is(kind, "Image")}
    return HubData({name: _frame(split) for name, split in splits.items()}, tuple(sorted(images)))


def _frame(split: Any) -> "pd.DataFrame":
    """Return a split as a table in which classes have their names and images are still encoded."""
    import datasets

    names: dict[str, list[str]] = {}
    for column, kind in split.features.items():
        if _is(kind, "Image"):
            split = split.cast_column(column, datasets.Image(decode=False))
        elif _is(kind, "ClassLabel"):
            names[column] = kind.names
    frame = split.to_pandas()
    for column, known in names.items():
        # Test rows of competitions have the class -1: they are not labeled.
        frame[column] = [
            known[int(number)] if number == number and number is not None and 0 <= number < len(known) else None
            for number in frame[column]
        ]
    return frame


def _is(kind: Any, name: str) -> bool:
    return type(kind).__name__ == name


def _cannot_load(where: str, folder: bool, error: Exception) -> str:
    cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if folder:
        return (
            f"the folder {where!r} cannot be opened as a saved data set ({cause}). Write it anew: "
            f"dataset.save_to_disk({where!r})."
        )
    if "onfig name is missing" in str(error) or "BuilderConfig" in str(error):
        return (
            f"the data set {where!r} has several subsets ({' '.join(str(error).split())[:300]}). Name one after a "
            f"colon: {where.partition(':')[0]}:SUBSET"
        )
    return (
        f"there is no file or folder {where!r}, and no data set of this name came from the Hugging Face hub ({cause}). "
        "Check the path; or, with a network, give a name such as stanfordnlp/sst2. Without one, save the data set "
        "where there is: datasets.load_dataset(name).save_to_disk(folder), and give that folder."
    )


@contextmanager
def _as_the_network_is() -> Iterator[None]:
    """Without a network, let `datasets` look into its cache at once instead of trying again for half a minute."""
    from datasets import config
    from huggingface_hub import constants

    before = (config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE)
    if not hub_is_reachable():
        config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = before


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep `datasets` from drawing bars of its own."""
    import datasets

    drawn = datasets.are_progress_bars_disabled() is False
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if drawn:
            datasets.enable_progress_bars()


def hub_is_reachable() -> bool:
    """Tell whether downloads are worth a try: not with HF_HUB_OFFLINE set, nor without a network.

    The hub's own libraries retry for most of a minute; this takes a few seconds at most.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return False
    address = urlsplit(constants.ENDPOINT)
    # A proxy resolves names itself, so that looking from here would tell nothing.
    if getproxies().keys() & {"https", "http", "all"}:
        return True
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        with socket.create_connection((address.hostname or "", port), timeout=_REACH_SECONDS):
            return True
    except OSError:
        return False

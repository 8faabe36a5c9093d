"""From raw values to what a network takes, by the kind of data; kept in a run folder as JSON."""

import json
from pathlib import Path
from typing import Any

from turnover.errors import RunError
from turnover.runs.folder import RunFolder

from .columns import ColumnInputs
from .encoded import EncodedInputs
from .ngrams import NgramInputs
from .pixels import PixelInputs
from .tokenized import TokenInputs

Inputs = NgramInputs | EncodedInputs | TokenInputs | ColumnInputs | PixelInputs

_KINDS: dict[str, type[Inputs]] = {
    known.kind: known for known in (NgramInputs, EncodedInputs, TokenInputs, ColumnInputs, PixelInputs)
}


def as_json(inputs: Inputs) -> str:
    """Return how values become inputs, as JSON."""
    return json.dumps({"kind": inputs.kind, **inputs.state()}) + "\n"


def read_inputs(file: Path) -> Inputs:
    """Return how values become inputs, from a file of a run folder."""
    try:
        state: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return _KINDS[state.pop("kind")].from_state(state)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{str(file)!r} cannot be read ({type(error).__name__}: {error}). Run it again: "
            f"{RunFolder(file.parent).again}"
        ) from error

"""Write the golden folders of scores of a format version, once.

    python -m tests.golden.scores.write

`saved` comes from `Scores.save`, `store` is filled tile by tile as by `Influence.pairwise(out=...)`, `saved_means` has
one score an instance; `content.json` says what is in them. Folders that exist are never written again: from
the first release on, a change of the format is a new version with folders of its own, and this one stays readable.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from turnover.scores import Scores, finish_store
from turnover.storage import ArraySpec, TileStore

FORMAT = 1
FOLDER = Path(__file__).with_name(f"format_{FORMAT}")


def content(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(sum(name.encode()))
    about = {"unit": "margin", "path": "grown at 'größe.1'", "provenance": {"seed": 7, "model": {"sites": ["größe.1"]}}}
    if name == "saved_means":
        return {
            "values": _plain(rng.normal(size=4)),
            "ids": [3, 0, 2**62 - 1, 2**53 + 1],
            "null": _plain(rng.normal(size=120)),
            "offset": 0.125,
            "replicas": 1,
            **about,
        }
    values = rng.normal(size=(5, 3))
    values[1, 2] = np.nan
    return {
        "values": _plain(values),
        "stderr": _plain(rng.random((5, 3))),
        "ids": [3, 0, 2**62 - 1, 2**53 + 1, 8],
        "queries": ["is it good?", 5, "层"],
        "null": _plain(rng.normal(size=(12, 3))),
        "null_spread": _plain(rng.random(3)),
        "offset": _plain(rng.normal(size=3)),
        "replicas": 4,
        **about,
    }


def main() -> None:
    if FOLDER.exists():
        raise SystemExit(f"{FOLDER} exists. Golden folders never change; raise FORMAT for new ones.")
    contents = {name: content(name) for name in ("saved", "saved_means", "store")}
    for name in ("saved", "saved_means"):
        Scores(**contents[name]).save(FOLDER / name)
    _store(FOLDER / "store", dict(contents["store"]))
    (FOLDER / "content.json").write_text(json.dumps(contents, indent=1) + "\n", encoding="ascii")


def _store(folder: Path, given: dict[str, Any]) -> None:
    tiled = {name: np.array(given.pop(name), np.float32) for name in ("values", "stderr")}
    spec = ArraySpec(shape=(5, 3), dtype="float32", tile=(2, 2))
    with TileStore.open_for_writing(folder, identity={"seed": 7}, arrays=dict.fromkeys(tiled, spec)) as store:
        for tile in store.pending():
            store.write(tile, {name: array[store.region(name, tile)] for name, array in tiled.items()})
        finish_store(store, **given)


def _plain(array: Any) -> Any:
    return np.asarray(array, np.float32).tolist()


if __name__ == "__main__":
    main()

"""Small real runs of each kind, made once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from turnover.runs.config import RunConfig
from turnover.runs.run import Run, start_run

GOOD = "a gorgeous film|what a delight|warm and funny|the best of the year|never boring|superb acting".split("|")
BAD = "a dull mess|far too long|flat and tired|the worst of the year|never funny|wooden acting".split("|")
CHANGED = 6
"""How many labels of the text run are wrong."""


def _run(folder: Path, name: str, **settings: Any) -> Run:
    defaults = {"hidden": 64, "replicas": 4, "epochs": 6}
    return start_run(RunConfig(str(folder / name), **{**defaults, **settings}), folder / "run")


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Reviews of which some training labels are wrong, some are hostile, and some say the same."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("text")
    rng = np.random.default_rng(0)
    rows = []
    for number in range(160):
        words, label = ((GOOD, "good"), (BAD, "bad"))[number % 2]
        text = f"{words[rng.integers(6)]}, {words[rng.integers(6)]} and {words[rng.integers(6)]} {number}"
        rows.append((text, label if number >= CHANGED else {"good": "bad", "bad": "good"}[label]))
    rows += [
        ("<script>alert(1)</script> a gorgeous film & more", "good"),
        ("same words twice", "good"),
        ("Same words, twice!", "bad"),
    ]
    pd.DataFrame(rows, columns=["text", "label"]).to_csv(folder / "reviews.csv", index=False)
    # Rows to test on are the same texts; of the first four labels are wrong, so that there are errors to explain.
    test = pd.DataFrame(rows[:30], columns=["text", "label"]).assign(label=["bad", "good"] * 2 + ["good", "bad"] * 13)
    test.to_csv(folder / "test.csv", index=False)
    return _run(folder, "reviews.csv", text="text", label="label", test_data=str(folder / "test.csv"))


@pytest.fixture(scope="session")
def table_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Numbers and a category, one value missing; one network, so that nothing is known from replicas."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(0)
    size = rng.normal(size=120)
    table = pd.DataFrame({"size": size, "weight": size * 2 + rng.normal(size=120), "color": ["red", "blue"] * 60})
    table.loc[3, "weight"] = np.nan
    table["kind"] = np.where(size + 0.8 * rng.normal(size=120) > 0, "large", "small")
    table.to_csv(folder / "things.csv", index=False)
    return _run(folder, "things.csv", label="kind", replicas=1, hidden=512, epochs=30)


@pytest.fixture(scope="session")
def image_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Bright and dark pictures, as arrays."""
    folder = tmp_path_factory.mktemp("image")
    rng = np.random.default_rng(0)
    labels = np.arange(100) % 2
    images = np.clip(rng.normal(100 + 40 * labels[:, None, None], 60, (100, 8, 8)), 0, 255).astype(np.uint8)
    np.savez(folder / "pictures.npz", images=images, labels=labels)
    return _run(folder, "pictures.npz", image_size=8, epochs=3)


@pytest.fixture(scope="session")
def group_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Rows of annotators, one of whom turns all labels round."""
    import pandas as pd

    folder = tmp_path_factory.mktemp("group")
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    who = np.array([f"annotator {number}" for number in range(300) for number in [number % 12]])
    large = (size > 0) ^ (who == "annotator 7")
    table = pd.DataFrame(
        {"size": size, "other": rng.normal(size=300), "who": who, "kind": np.where(large, "large", "small")}
    )
    table.to_csv(folder / "things.csv", index=False)
    return _run(folder, "things.csv", label="kind", group="who", epochs=20)

"""Bad input: a message that says what to do, exit code 2, no traceback, and nothing half written."""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.ui.small_runs import image_folder, reviews
from tests.ui.terminal.conftest import SMALL_OPTIONS, rejected
from turnover.storage import digest_of, to_record

FILES = {
    "a missing label": (reviews() + "a film,,good\n", ["1 row without a label", "line 62", "--skip-bad"]),
    "nothing": ("", ["is empty"]),
}


def _corrupt_image(folder: Path) -> None:
    (image_folder(folder / "images") / "lies" / "00.png").write_bytes(b"no image at all")


def _nothing(folder: Path) -> None:
    pass


REJECTED: dict[str, tuple[Callable[[Path], None], str, list[str]]] = {
    "settings out of range, all at once": (
        _nothing,
        "data.csv --keep 2 --batch-size 0",
        ["keep must be", "got 2", "batch_size must be"],
    ),
    "a corrupt image": (
        _corrupt_image,
        "images --image-size 8",
        ["1 image of 60", "lies/00.png", "Replace or remove", "--skip-bad"],
    ),
}


LABELS = ("good", "bad")


def _lines(folder: Path, **cells: Callable[[int], object]) -> None:
    made = {"text": lambda n: f"a film of {n} scenes", "label": lambda n: LABELS[n % 2]} | cells
    rows = [{name: cell(n) for name, cell in made.items()} for n in range(40)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _columns(folder: Path, **cells: Callable[[int], object]) -> None:
    import pandas as pd

    made = {"a": lambda n: n % 7, "label": lambda n: LABELS[n % 2]} | cells
    pd.DataFrame({name: [cell(n) for n in range(40)] for name, cell in made.items()}).to_parquet(
        folder / "data.parquet"
    )


def _map_column(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    maps = pa.array([[("k", n)] for n in range(40)], pa.map_(pa.string(), pa.int64()))
    labels = [LABELS[n % 2] for n in range(40)]
    pq.write_table(pa.table({"a": list(range(40)), "m": maps, "label": labels}), folder / "data.parquet")


def _strings_of_other_bytes(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    ends = pa.py_buffer(np.arange(0, 82, 2, dtype=np.int32))
    texts = pa.StringArray.from_buffers(40, ends, pa.py_buffer(b"\xff\xfe" * 40))
    pq.write_table(pa.table({"text": texts, "label": [LABELS[n % 2] for n in range(40)]}), folder / "data.parquet")


def _npz(folder: Path, images: np.ndarray | None = None, labels: np.ndarray | None = None) -> None:
    images = np.random.default_rng(0).random((40, 8, 8)) if images is None else images
    labels = np.arange(len(images)) % 2 if labels is None else labels
    np.savez_compressed(folder / "images.npz", images=images, labels=labels)


def _npz_that_declares_much(folder: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 99, 99)})
    with zipfile.ZipFile(folder / "images.npz", "w") as packed:
        packed.writestr("images.npy", header.getvalue())
        packed.writestr("labels.npy", header.getvalue())


def _image_names(folder: Path) -> None:
    first = min(image_folder(folder / "images").rglob("*.png"))
    os.rename(first, os.fsencode(first.parent) + b"/\xff\xfe.png")


def _pipe_among_images(folder: Path) -> None:
    image_folder(folder / "images")
    os.mkfifo(folder / "images" / "labels.csv")


def _bad_zlib_stream(folder: Path) -> None:
    first = min(image_folder(folder / "images").rglob("*.png"))
    content = first.read_bytes()
    start = content.index(b"IDAT") + 4
    first.write_bytes(content[:start] + b"\xff" * 8 + content[start + 8 :])


def _data(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "data.csv").write_text(content)


def _settings(content: str | bytes) -> Callable[[Path], None]:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / "settings.toml").write_bytes(data) and None


def _pipe(name: str) -> Callable[[Path], None]:
    return lambda folder: os.mkfifo(folder / name)


DEEP = "[" * 100_000 + "]" * 100_000
DEEP_CELL = "[" * 500 + "]" * 500
ONE_NUMBER = "one number or text per cell"
ODD: dict[str, tuple[Callable[[Path], object], str, list[str]]] = {
    **{name: (_data(content), "data.csv --text text --label label", parts) for name, (content, parts) in FILES.items()},
    **REJECTED,
    "half a character in a text": (
        lambda folder: _lines(folder, text=lambda n: f"film {n} \ud800"),
        "data.jsonl",
        ["line 1", "\\ud800 is a lone surrogate"],
    ),
    "strings that are not UTF-8": (_strings_of_other_bytes, "data.parquet", ["cannot be read as parquet"]),
    "bytes as texts": (
        lambda folder: _columns(folder, text=lambda n: b"film"),
        "data.parquet --text text",
        ["column 'text'", "holds bytes"],
    ),
    "maps": (_map_column, "data.parquet", ["column 'm'", "holds lists", ONE_NUMBER, "--columns NAME"]),
    "lists as texts": (
        lambda folder: _lines(folder, text=lambda n: ["a", "film"]),
        "data.jsonl --text text",
        ["lists", "--text NAME"],
    ),
    "a line nested deep": (lambda folder: (folder / "data.jsonl").write_text(DEEP), "data.jsonl", ["100 levels"]),
    "a cell nested deep": (
        lambda folder: (folder / "data.jsonl").write_text(f'{{"text": "a", "label": "b", "x": {DEEP_CELL}}}\n' * 9),
        "data.jsonl",
        ["line 1", "100 levels"],
    ),
    "no arrays": (lambda folder: np.savez(folder / "images.npz"), "images.npz", ["no images with labels"]),
    "complex pixels": (lambda folder: _npz(folder, np.ones((40, 8, 8), complex)), "images.npz", ["numbers as pixels"]),
    "several labels per image": (
        lambda folder: _npz(folder, None, np.tile([1, 1, 0], (40, 1))),
        "images.npz",
        ["one label each"],
    ),
    "a size that is not there": (_npz_that_declares_much, "images.npz", ["is damaged"]),
    "a bad zlib stream": (_bad_zlib_stream, "images --image-size 8", ["1 image of 60", "--skip-bad"]),
    "images whose names are not UTF-8": (_image_names, "images", ["1 images whose names are not valid UTF-8"]),
    "a name that is not UTF-8": (_nothing, "data\udcff.csv", ["is not valid UTF-8"]),
    "a name that is too long": (_nothing, f"{'x' * 300}.csv", ["too long for a file name"]),
    "an output that is too long": (_nothing, f"data.csv --out {'x' * 300}", ["too long for a file name", "--out NEW"]),
    "this folder as output": (_nothing, "data.csv --out .", ["exists and is not a run", "--out NEW"]),
    "a huge seed": (_nothing, f"data.csv --seed {10**30}", ["seed must be less than 2147483648"]),
    "a negative width": (_nothing, "data.csv --hidden -1", ["hidden must be greater than", "got -1"]),
    "a NaN as learning rate": (_nothing, "data.csv --learning-rate nan", ["learning_rate must be", "got nan"]),
    "a folder as settings": (lambda folder: (folder / "s").mkdir(), "--config s", ["cannot be read: Is a directory"]),
    "a pipe as settings": (_pipe("settings.toml"), "--config settings.toml", ["it is a pipe or device"]),
    "settings of wrong types": (
        _settings('data = 3\nseed = "x"\nepochs = [1]\nkeep = true\ncolumns = [1]\n'),
        "--config settings.toml",
        [f"{name} must be a valid" for name in ("data", "columns", "keep", "epochs", "seed")],
    ),
    "settings nested deep": (_settings(f"data = {DEEP}"), "--config settings.toml", ["is not TOML"]),
    **{
        f"a pipe as {name}": (_pipe(name), name, ["is a pipe or device", "Write its content to a file"])
        for name in ("rows.csv", "rows.parquet", "rows.npz")
    },
    "a pipe as validation data": (_pipe("rows.csv"), "data.csv --validation-data rows.csv", ["is a pipe or device"]),
    "a pipe as labels of images": (_pipe_among_images, "images", ["is a pipe or device"]),
}


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_learned_from_gets_one_sentence_and_leaves_no_folder(turnover_, tmp_path, name):
    make, command, parts = ODD[name]
    (tmp_path / "data.csv").write_text(reviews())
    make(tmp_path)
    before = sorted(os.listdir(tmp_path))
    said = turnover_("run", *SMALL_OPTIONS, *command.split(" "))
    rejected(said, *parts)
    assert len(said.err.splitlines()) == 1
    assert sorted(os.listdir(tmp_path)) == before


def test_a_network_that_does_not_fit_into_memory_is_rejected_before_it_is_made(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews())
    said = turnover_("run", "data.csv", *SMALL_OPTIONS, "--hidden", "1000000", "--replicas", "1000000", "--out", "RUN")
    rejected(said, "a masked layer of 1,000,000 units", "of memory are free", "--hidden")


def _rewritten(file: Path, change: Callable[[Any], object]) -> None:
    """Change a JSON file of a run, or what its rows say of themselves, and the checksums in run.json."""
    table = pq.read_table(file) if file.suffix == ".parquet" else None
    content = json.loads(file.read_bytes() if table is None else table.schema.metadata[b"turnover"])
    content.pop("checksum", None)
    content = change(content)
    about = file.parent / "run.json" if file.parent.name == "RUN" else file.parent.parent / "run.json"
    if file == about:
        file.write_bytes(
            to_record(content, allow_nan=True) if isinstance(content, dict) else json.dumps(content).encode()
        )
        return
    if table is None:
        file.write_text(json.dumps(content))
    else:
        pq.write_table(table.replace_schema_metadata({"turnover": json.dumps(content)}), file)
    listed = json.loads(about.read_bytes())
    del listed["checksum"]
    listed["files"][file.relative_to(about.parent).as_posix()] = digest_of(file)
    about.write_bytes(to_record(listed, allow_nan=True))


WRONG_TYPES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "run.json a list": ("run.json", lambda about: [about]),
    "run.json with a number as state": ("run.json", lambda about: {**about, "state": 3}),
    "run.json with texts as results": ("run.json", lambda about: {**about, "results": {"test_accuracy": "x"}}),
    "run.json with another entry": ("run.json", lambda about: {**about, "more": 1}),
    "rows with a text as names": ("rows.parquet", lambda rows: {**rows, "label_names": "ab"}),
    "rows without names": ("rows.parquet", lambda rows: {**rows, "label_names": []}),
    "rows with a list as scales": ("rows.parquet", lambda rows: {**rows, "scales": [1]}),
    "rows of another format": ("rows.parquet", lambda rows: {**rows, "format": 2}),
    "inputs.json with another kind": ("inputs.json", lambda inputs: {**inputs, "kind": "x"}),
    "curves.json with a number": ("curves.json", lambda curves: {**curves, "keep": 3}),
    "turnover.json a list": ("model/turnover.json", lambda model: [model]),
    "turnover.json with a text as seed": (
        "model/turnover.json",
        lambda model: {**model, "recipe": {**model["recipe"], "seed": "x"}},
    ),
    "turnover.json without a checksum": ("model/turnover.json", lambda model: {**model, "weights_sha256": None}),
    "turnover.json with many replicas": (
        "model/turnover.json",
        lambda model: {**model, "recipe": {**model["recipe"], "replicas": 10**9}},
    ),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_values_of_wrong_types_in_files_of_a_run_get_a_sentence(turnover_, text_run, tmp_path, name):
    file, change = WRONG_TYPES[name]
    shutil.copytree(text_run, tmp_path / "RUN")
    _rewritten(tmp_path / "RUN" / file, change)
    said = turnover_("explain", "RUN", "--errors") if file != "curves.json" else turnover_("report", "RUN")
    rejected(said, Path(file).name if file != "run.json" else "RUN")


def test_nan_and_missing_values_of_a_table_are_learned_from_and_noted(turnover_, tmp_path):
    lines = [f"{'NaN' if n % 7 == 0 else n % 2},{'' if n % 5 == 0 else 'red'},{'ab'[n % 2]}" for n in range(60)]
    (tmp_path / "data.csv").write_text("\n".join(["x,color,y", *lines]))
    said = turnover_("run", "data.csv", "--label", "y", *SMALL_OPTIONS, "--json")
    assert said.code == 0, said.err
    assert any("Missing values" in note for note in said.data["notes"])


def test_bad_rows_are_left_out_where_asked_for_and_a_replay_does_so_again(turnover_, tmp_path):
    (tmp_path / "data.csv").write_text(reviews() + ",good,good\na film,,good\n")
    said = turnover_("run", "data.csv", "--skip-bad", *SMALL_OPTIONS, "--epochs", "2", "--out", "RUN", "--json")
    assert said.code == 0, said.err
    assert any("1 row without text in column 'text' skipped (line 62)" in note for note in said.data["notes"])
    assert sum(said.data["rows"].values()) == 60
    assert "skip_bad = true" in Path("RUN/config.toml").read_text()
    again = turnover_("run", "--config", "RUN/config.toml", "--out", "AGAIN", "--json")
    assert again.code == 0, again.err
    assert again.data["results"] == said.data["results"]
    rejected(turnover_("run", "--config", "RUN/config.toml", "--no-skip-bad", "--out", "NEW"), "line 62", "--skip-bad")
    assert not Path("NEW").exists()


COMMANDS = [
    "explain RUN --errors",
    "cleanse RUN",
    "memorized RUN",
    "audit RUN",
    "report RUN",
    "serve RUN",
    "evaluate RUN",
]


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000, "R\udcff"], ids=["long name", "long path", "not UTF-8"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_no_folder_can_have_is_that_of_a_missing_one(turnover_, command, name):
    rejected(turnover_(*command.replace("RUN", name).split()), "there is no folder", "turnover run DATA --out")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_folder_says_how_to_make_a_run(turnover_, command):
    said = turnover_(*command.split())
    rejected(said, "there is no folder 'RUN'", "turnover run DATA --out RUN")
    assert "run.json" not in said.err
    assert not Path("RUN").exists()


def test_a_folder_or_file_that_is_no_run_is_told_apart_from_a_missing_one(turnover_, tmp_path):
    (tmp_path / "RUN").mkdir()
    (tmp_path / "file").touch()
    rejected(turnover_("memorized", "RUN"), "the folder 'RUN' holds no run: it has no run.json", "turnover run DATA")
    rejected(turnover_("memorized", "file"), "'file' is a file, and the folder of a run is needed", "turnover run DATA")


STATES = {
    "another version": ({"format": 99}, ["format", "turnover run --config"]),
    "unfinished": ({"state": "begun"}, ["is not finished", "turnover run --config"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("state", STATES)
def test_a_run_of_another_version_or_unfinished_says_how_to_run_or_resume_it(
    turnover_, text_run, tmp_path, command, state
):
    change, parts = STATES[state]
    # Nothing but these is read before the state is known.
    (tmp_path / "RUN").mkdir()
    shutil.copy(text_run / "config.toml", tmp_path / "RUN")
    about = {**json.loads((text_run / "run.json").read_text()), **change}
    del about["checksum"]
    (tmp_path / "RUN" / "run.json").write_bytes(to_record(about))
    rejected(turnover_(*command.split()), *parts)


AGAIN = "turnover run --config RUN/config.toml --out NEW"
HALF, GONE = "half", "gone"
REBUILD = "turnover run --config RUN/config.toml --out RUN"
DAMAGES = [
    *(
        ("text", file, damage, "report RUN", AGAIN if file in ("rows.parquet",) else REBUILD)
        for file in ("rows.parquet", "inputs.json", "curves.json", "model/weights.pt")
        for damage in (HALF, GONE)
    ),
    ("text", "run.json", HALF, "report RUN", AGAIN),
    ("text", "scores/mean.npz", HALF, "report RUN", REBUILD),
    ("image", "images.npz", HALF, "memorized RUN", AGAIN),
    ("text", "config.toml", HALF, "explain RUN --errors", "turnover run DATA --out RUN"),
]


@pytest.mark.parametrize(("kind", "file", "damage", "command", "part"), DAMAGES, ids=str)
def test_a_damaged_run_says_how_to_rebuild_it_or_to_run_it_again(
    turnover_, runs, tmp_path, kind, file, damage, command, part
):
    shutil.copytree(runs[kind], tmp_path / "RUN")
    damaged = tmp_path / "RUN" / file
    if damage == GONE:
        damaged.unlink()
    else:
        damaged.write_bytes(damaged.read_bytes()[: damaged.stat().st_size // 2 + 1])
    said = turnover_(*(word.replace("_", " ") for word in command.split()))
    rejected(said, part)
    assert "Save the model again" not in said.err


def test_without_a_display_the_report_is_written_and_its_path_told(turnover_, text_run, tmp_path, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))  # no browser is found there
    shutil.copytree(text_run, tmp_path / "RUN")
    assert set(turnover_("report", "RUN", "--open", "--json").data) == {"error", "exit_code"}  # and nothing else
    said = turnover_("report", "RUN", "--open")
    assert said.code == 2
    assert "no browser" in said.err
    assert "Traceback" not in said.err
    assert (tmp_path / "RUN" / "report.html").is_file()

"""A run folder: every file of it and of its data has a checksum, and one writer at a time."""

import json
import os
import shutil
from dataclasses import replace

import numpy as np
import pytest

from turnover.errors import RunError
from turnover.runs import RunConfig, RunFolder, open_run, start_run

SMALL = {"hidden": 8, "replicas": 2, "epochs": 2}
ALSO = {"table.csv": {}, "images": {"image_size": 8}}


def table_file(path, *, first=0):
    draw = np.random.default_rng(0)
    lines = [f"{number:.3f},{'ab'[number > 0]}" for number in draw.normal(size=40).tolist()]
    path.write_text("\n".join(["x,label", *lines[first:]]) + "\n")
    return path


def image_folder(path):
    from PIL import Image

    draw = np.random.default_rng(0)
    for number in range(24):
        file = path / "ab"[number % 2] / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draw.integers(0, 255, (8, 8), dtype=np.uint8)).save(file)
    return path


MAKERS = {"table.csv": table_file, "images": image_folder}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return a small run of each kind of folder, by the name of its data."""
    folder = tmp_path_factory.mktemp("runs")
    configs = {name: RunConfig(str(make(folder / name)), **SMALL, **ALSO[name]) for name, make in MAKERS.items()}
    return {name: start_run(config, folder / f"run-{name}") for name, config in configs.items()}


def files_of(run):
    return sorted(file.relative_to(run.folder.path).as_posix() for file in run.folder.path.rglob("*") if file.is_file())


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("kind", MAKERS)
def test_every_file_of_a_run_has_a_checksum(runs, kind):
    assert sorted([*json.loads(runs[kind].folder.about.read_text())["files"], "run.json"]) == files_of(runs[kind])


@pytest.mark.parametrize("kind", MAKERS)
def test_a_flipped_bit_in_any_file_is_found_when_the_run_is_opened(runs, kind, tmp_path):
    for name in files_of(runs[kind]):
        folder = shutil.copytree(runs[kind].folder.path, tmp_path / name.replace("/", "-"))
        flip(folder / name)
        with pytest.raises(RunError, match=rf"(damaged: '{name}'|{name}' is missing or damaged).*: turnover run "):
            open_run(folder)


@pytest.mark.parametrize("damage", [flip, lambda file: file.unlink()], ids=["flipped", "gone"])
@pytest.mark.parametrize("name", ["inputs.json", "model/weights.pt", "curves.json", "scores/self.npz"])
def test_what_can_be_computed_again_is_rebuilt_by_the_same_command(runs, tmp_path, name, damage):
    run = runs["table.csv"]
    folder = RunFolder(shutil.copytree(run.folder.path, tmp_path / "run"))
    damage(folder.path / name)
    again = start_run(run.config, folder.path)
    assert any("Computed again" in note and name in note for note in again.about.notes)
    opened = open_run(folder.path)
    assert opened.about.results == run.about.results
    for score in ("self_influence", "mean_influence", "out_of_sample"):
        assert getattr(opened, score).equals(getattr(run, score))


@pytest.mark.parametrize("damage", [flip, lambda file: file.unlink()], ids=["flipped", "gone"])
def test_settings_that_are_damaged_are_written_again_where_they_are_given_once_more(runs, tmp_path, damage):
    run = runs["table.csv"]
    folder = RunFolder(shutil.copytree(run.folder.path, tmp_path / "run"))
    damage(folder.config)
    with pytest.raises(RunError, match=r"damaged: 'config.toml'.*Give the settings once more"):
        start_run(replace(run.config, seed=3), folder.path)
    start_run(run.config, folder.path)
    assert open_run(folder.path).config == run.config


@pytest.mark.parametrize("name", ["rows.parquet", "images.npz"])
def test_rows_that_are_damaged_are_no_start_for_anything(runs, tmp_path, name):
    run = runs["images"]
    folder = shutil.copytree(run.folder.path, tmp_path / "run")
    flip(folder / name)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=rf"damaged: '{name}'.*Run it again"):
        start_run(run.config, folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def change_folder(data):
    (data / "a" / "0.png").write_bytes((data / "a" / "2.png").read_bytes())


CHANGES = {
    "table.csv": lambda data: table_file(data, first=1),
    "images": change_folder,
}


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("state", ["complete", "unfinished"])
def test_changed_data_is_not_answered_by_the_former_run(kind, state, tmp_path):
    class CutOffError(Exception):
        pass

    def cut_off(stage, done, total, note=""):
        if stage == "scoring" and state == "unfinished":
            raise CutOffError

    data = MAKERS[kind](tmp_path / kind)
    config = RunConfig(str(data), **{**SMALL, **ALSO[kind], "epochs": 1, "replicas": 1})
    try:
        run = start_run(config, tmp_path / "run", watch=cut_off)
    except CutOffError:
        run = None
    assert (run is None) == (state == "unfinished")
    CHANGES[kind](data)
    with pytest.raises(RunError, match=rf"{kind}' changed since the run in .*--out NEW"):
        start_run(config, tmp_path / "run")
    if run is not None:
        assert open_run(tmp_path / "run").changed_data() == [str(data)]


@pytest.mark.parametrize("part", ["validation_data", "test_data"])
def test_changed_validation_and_test_files_are_noticed(part, tmp_path):
    data, more = table_file(tmp_path / "table.csv"), table_file(tmp_path / "more.csv")
    config = replace(RunConfig(str(data), **{**SMALL, "epochs": 1, "replicas": 1}), **{part: str(more)})
    start_run(config, tmp_path / "run")
    table_file(more, first=2)
    with pytest.raises(RunError, match=r"more\.csv' changed since"):
        start_run(config, tmp_path / "run")


def test_a_folder_that_was_made_for_data_that_cannot_be_read_goes_again(tmp_path):
    with pytest.raises(Exception, match="there is no file"):
        start_run(RunConfig(str(tmp_path / "none.csv")), tmp_path / "new" / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_removed_with_files_of_others(runs, tmp_path):
    folder = RunFolder(shutil.copytree(runs["table.csv"].folder.path, tmp_path / "run"))
    (folder.path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match=r"holds 'thesis\.txt', which a run does not write"):
        folder.clear()
    assert open_run(folder.path).complete
    (folder.path / "thesis.txt").unlink()
    folder.clear()
    assert not folder.path.exists()


@pytest.mark.parametrize("stage", ["reading", "training", "scoring"])
def test_a_second_run_into_the_folder_is_rejected_at_every_stage_and_told_who_writes(stage, tmp_path):
    config = RunConfig(str(table_file(tmp_path / "table.csv")), **SMALL)
    rejected = []

    def meanwhile(reached, done, total, note=""):
        if reached == stage and not rejected:
            for other in (config, replace(config, seed=1)):
                with pytest.raises(RunError) as raised:
                    start_run(other, tmp_path / "run")
                rejected.append(str(raised.value))

    run = start_run(config, tmp_path / "run", watch=meanwhile)
    assert all("is being written by the process with pid" in error or "other settings" in error for error in rejected)
    assert any(f"pid {os.getpid()}" in error for error in rejected)
    assert (open_run(run.folder.path).splits == run.splits).all()


def test_scores_are_computed_under_the_lock_of_the_folder(runs, tmp_path):
    folder = RunFolder(shutil.copytree(runs["table.csv"].folder.path, tmp_path / "run"))
    run = open_run(folder.path)
    with folder.lock(), pytest.raises(RunError, match="is being written by"):
        run.score()

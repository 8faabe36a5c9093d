"""Settings of a run: rejected all at once, and the same after a file."""

import pytest

from turnover.errors import RunError
from turnover.runs.config import RunConfig


def test_settings_are_the_same_after_a_file(tmp_path):
    config = RunConfig('a "quoted".csv', task="table", label="größe", columns=("a", "b"), keep=0.25, max_rows=7)
    (tmp_path / "config.toml").write_text(config.as_toml(), encoding="utf-8")
    assert RunConfig.read(tmp_path / "config.toml") == config


def test_defaults_fill_what_was_left_open_only():
    config = RunConfig("a.csv", epochs=5).with_defaults(epochs=3, hidden=64)
    assert (config.epochs, config.hidden) == (5, 64)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"keep": 2, "task": "video", "batch_size": 0},
            r"task must be 'text'.*got 'video'; keep must be less than 1, got 2; batch_size must be .* 1, got 0",
        ),
        ({"adapters": 64, "validation": 0.5, "test": 0.5}, "leave no rows for training; adapters go into a pretrained"),
        ({"model": "folder", "adapters": 64, "replicas": 8}, r"replicas must be 1 with adapters.*got 8"),
    ],
)
def test_what_cannot_be_run_is_refused_all_at_once(settings, message):
    with pytest.raises(RunError, match=message):
        RunConfig("a.csv", **settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('data = "a.csv"\nepoch = 3\n', r"unknown settings epoch.*epochs"),
        ("epochs = 3", "no setting 'data'"),
        ("= nothing", "is not TOML"),
        ('data = "a.csv"\nepochs = "3"\n', r"epochs must be a valid integer, got '3'"),
        ('data = ["a.csv"]\nkeep = true\n', r"data must be a valid string.*keep must be a valid number, got True"),
        (None, "no file"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path, content, message):
    file = tmp_path / "config.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(RunError, match=message):
        RunConfig.read(file)


def test_a_folder_in_place_of_a_config_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"cannot be read: Is a directory\. Give a file, such as RUN/config\.toml"):
        RunConfig.read(tmp_path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed must be greater than or equal to 0, got -1"),
        ({"seed": 2**64}, "seed must be"),
        ({"hidden": 10**9}, "hidden must be less than or equal to 1000000"),
        ({"learning_rate": float("inf")}, "learning_rate must be less than or equal to 1000000.*got inf"),
        ({"learning_rate": float("nan")}, "learning_rate must be"),
        ({"weight_decay": float("inf")}, "weight_decay must be"),
    ],
)
def test_numbers_that_end_without_memory_or_sense_are_refused(settings, message):
    with pytest.raises(RunError, match=message):
        RunConfig("a.csv", **settings)

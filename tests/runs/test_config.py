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
            {"keep": 2, "adapters": 64, "batch_size": 0},
            r"keep must be a share.*got 2.*batch_size must be an integer >= 1, got 0.*adapters go into a pretrained",
        ),
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
        (None, "no file"),
    ],
)
def test_a_file_that_is_no_config_is_refused(tmp_path, content, message):
    file = tmp_path / "config.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(RunError, match=message):
        RunConfig.read(file)

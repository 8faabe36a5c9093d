"""The demo's task: changed labels are found, and the curves say what they should."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs the extra cli")

from turnover.errors import RunError
from turnover.runs.config import RunConfig
from turnover.runs.digits import DigitsConfig, load_digits, run_digits
from turnover.runs.folder import About, RunFolder

SETTINGS = DigitsConfig(epochs=6, replicas=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("digits") / "demo"


@pytest.fixture(scope="module")
def result(folder):
    return run_digits(SETTINGS, folder)


def test_a_tenth_of_the_training_labels_is_changed_and_the_same_for_one_seed():
    data = load_digits(DigitsConfig(seed=5))
    assert int(data.changed.sum()) == round(0.1 * len(data.labels))
    assert np.array_equal(data.labels, load_digits(DigitsConfig(seed=5)).labels)
    assert not np.array_equal(data.labels, load_digits(DigitsConfig(seed=6)).labels)


def test_the_same_demo_again_is_opened_and_not_trained(result, folder):
    before = (folder / "curves.json").stat().st_mtime_ns
    again = run_digits(SETTINGS, folder)
    assert again.found == result.found
    assert (folder / "curves.json").stat().st_mtime_ns == before


def test_a_demo_of_other_settings_takes_the_place_of_the_former(tmp_path, monkeypatch):
    def start(settings, out, *, watch):
        folder = RunFolder(out)
        assert not folder.path.exists()
        folder.write(folder.config, settings.as_toml())
        folder.write_about(About.of_new_run())
        return SimpleNamespace(self_influence=SimpleNamespace(values=np.zeros(1437)))

    monkeypatch.setattr("turnover.runs.digits.start_run", start)
    for epochs in (2, 3):
        run_digits(DigitsConfig(epochs=epochs, replicas=1, changed=0.2), tmp_path / "demo")
        assert RunConfig.read(tmp_path / "demo" / "config.toml").epochs == epochs


def test_a_folder_of_another_run_is_left_alone(tmp_path):
    other = tmp_path / "demo"
    other.mkdir()
    (other / "run.json").write_text("{}")
    (other / "config.toml").write_text(RunConfig("mine.csv").as_toml())
    with pytest.raises(RunError, match=r"holds another run \(mine.csv\)"):
        run_digits(SETTINGS, other)
    assert (other / "config.toml").is_file()

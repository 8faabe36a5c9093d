"""A run from data to scores, in a folder."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from turnover.errors import DataFileError, RunError
from turnover.influence import Influence
from turnover.runs import RunConfig, open_run, start_run
from turnover.runs import run as run_module


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    draw = np.random.default_rng(0)
    good, bad = "lovely funny warm bright clever".split(), "dull slow cold empty tired".split()
    lines = ["text,label"]
    for row in range(200):
        liked = row % 2 == 0
        words = (
            draw.choice(good if liked else bad, 3).tolist()
            + draw.choice("film plot cast scene end".split(), 3).tolist()
        )
        lines.append(f"{' '.join(words)} {row},{'pos' if liked != (row % 20 == 3) else 'neg'}")
    file = tmp_path_factory.mktemp("data") / "reviews.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def config(reviews):
    return RunConfig(str(reviews), text="text", label="label", hidden=64, replicas=3, epochs=4, learning_rate=3e-3)


@pytest.fixture(scope="module")
def run(config, tmp_path_factory):
    return start_run(config, tmp_path_factory.mktemp("runs") / "reviews")


def test_a_run_can_be_opened_again_and_says_the_same(run):
    again = open_run(run.folder.path)
    assert again.about == run.about
    texts = ["a lovely warm film", "dull and slow"]
    assert np.array_equal(again.predict(texts), run.predict(texts))
    assert again.self_influence.equals(run.self_influence)
    assert again.mean_influence.equals(run.mean_influence)
    assert again.out_of_sample.equals(run.out_of_sample)


def test_predictions_are_asked_of_the_recommended_estimator_and_rows_of_masks(run):
    recommended = Influence(run.model, train=run.train_data).mean(run.data("validation"), progress=False)
    assert np.allclose(run.mean_influence.values, recommended.values, atol=1e-5)
    assert (run.mean_influence.method, run.self_influence.method) == ("curvature", "tod")
    assert run.influence_on_sets is run.influence  # what is fitted serves both
    assert run.influence.top(run.data("test"), k=1, progress=False).method == "curvature"


def test_a_run_is_asked_when_its_file_is_gone(reviews, run, tmp_path):
    reviews.rename(tmp_path / "moved.csv")
    again = start_run(run.config, run.folder.path)
    (tmp_path / "moved.csv").rename(reviews)
    assert again.rows.values == run.rows.values
    assert torch.equal(again.y, run.y)
    assert again.predict(["a film"]).shape == (1, 2)


def test_no_row_is_in_two_splits_and_scores_have_the_order_of_training_rows(run):
    parts = [run.places(split) for split in ("train", "validation", "test")]
    assert sorted(np.concatenate(parts).tolist()) == list(range(200))
    assert run.self_influence.ids.tolist() == parts[0].tolist()
    assert run.out_of_sample.probs.shape == (len(parts[0]), 2)


def test_the_mask_bias_is_corrected_where_that_is_cheap(run, monkeypatch):
    assert run.held_out().path == "flipped view of each row, mask-bias correction by 32 reference examples"
    assert np.allclose(run.held_out().probs, run.out_of_sample.probs, atol=1e-6)
    monkeypatch.setattr(run_module, "_MOST_WITH_REFERENCES", len(run.places("train")) - 1)
    assert run.held_out().path == "flipped view of each row"


class _CutOff(BaseException):
    pass


@pytest.mark.parametrize("stage", ["training", "scoring"])
def test_an_interrupted_run_is_resumed_and_the_same_settings_give_the_same_scores(config, run, tmp_path, stage):
    def cut_off(reached, done, total, note=""):
        if reached == stage and done > 0:
            raise _CutOff

    with pytest.raises(_CutOff):
        start_run(config, tmp_path / "run", watch=cut_off)
    with pytest.raises(RunError, match=r"is not finished.*Resume it: turnover run --config"):
        open_run(tmp_path / "run")
    again = start_run(config, tmp_path / "run")
    assert again.complete
    assert np.array_equal(again.self_influence.values, run.self_influence.values)


def test_a_finished_run_is_not_trained_again(config, run):
    def reject(stage, done, total, note=""):
        raise AssertionError(stage)

    assert start_run(config, run.folder.path, watch=reject).complete


def test_a_folder_with_other_settings_is_refused_by_name(config, run):
    with pytest.raises(RunError, match=r"seed 0 there, 5 here.*--out NEW"):
        start_run(replace(config, seed=5), run.folder.path)
    with pytest.raises(RunError, match=r"max_rows default there, 30 here"):
        start_run(replace(config, max_rows=30), run.folder.path)


def test_a_folder_that_is_no_run_is_left_alone(config, tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(RunError, match="exists and is not a run"):
        start_run(config, tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_data_that_cannot_be_used_makes_no_folder(tmp_path):
    (tmp_path / "one.csv").write_text("text,label\nhello,a\n")
    with pytest.raises(DataFileError):
        start_run(RunConfig(str(tmp_path / "one.csv"), text="text", label="label"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "run.json").unlink(), "holds no run"),
        (lambda folder: (folder / "run.json").write_text("{"), "missing or damaged"),
        (
            lambda folder: (folder / "run.json").write_text('{"format": 99, "versions": {"turnover": "9.0"}}'),
            "turnover 9.0",
        ),
    ],
    ids=["missing", "broken", "other format"],
)
def test_a_damaged_folder_says_what_to_do(run, tmp_path, change, message):
    folder = shutil.copytree(run.folder.path, tmp_path / "run")
    change(folder)
    with pytest.raises(RunError, match=message):
        open_run(folder).predict(["a film"])


def test_rows_of_a_group_are_one_instance(config, reviews, tmp_path):
    lines = reviews.read_text().splitlines()
    grouped = [f"{line},{'who' if place == 0 else f'annotator {place % 7}'}" for place, line in enumerate(lines)]
    (tmp_path / "grouped.csv").write_text("\n".join(grouped))
    grouped_config = replace(config, data=str(tmp_path / "grouped.csv"), group="who", replicas=1, epochs=1)
    run = start_run(grouped_config, tmp_path / "run")
    assert set(run.train_data[2].tolist()) <= set(range(7))
    assert run.task.name == "classification"


def test_scores_are_computed_by_a_verb_and_only_read_by_properties(run, tmp_path):
    shutil.copytree(run.folder.path, tmp_path / "run")
    (tmp_path / "run" / "scores" / "mean.npz").unlink()
    again = open_run(tmp_path / "run")
    with pytest.raises(
        RunError, match=r"has no mean influence yet. Compute it: run.score\(\), or turnover run --config"
    ):
        _ = again.mean_influence
    again.score()
    assert np.array_equal(again.mean_influence.values, run.mean_influence.values)
    assert again.about.results == run.about.results


def test_nothing_that_was_just_written_is_read_back(config, tmp_path, monkeypatch):
    def fail(*_):
        raise AssertionError("read back")

    monkeypatch.setattr("turnover.runs.table.Rows.open", fail)
    monkeypatch.setattr("turnover.runs.run.read_inputs", fail)
    monkeypatch.setattr("turnover.runs.run.load", fail)
    monkeypatch.setattr("turnover.scores.Scores.open", fail)
    run = start_run(replace(config, epochs=1, replicas=1, hidden=8), tmp_path / "run")
    assert run.predict(["a film"]).shape == (1, 2)
    assert len(run.self_influence) == len(run.places("train"))

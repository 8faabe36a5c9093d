"""What holds for all experiments: a toy run has a result, a page and figures, is resumed, and names missing data."""

import json
import re
import warnings

import pytest

from turnover_bench.experiments.datasets import MissingDataError
from turnover_bench.experiments.runner import as_json, experiments, module_of, outside, publish, run

NEEDS_DATA = {
    "cleansing": r"electronics.tsv.*https://",
    "error_cifar10": r"cifar10_12k.npz.*https://",
    "error_sst2": r"sst2/train.tsv.*https://",
    "error_yahoo": r"yahoo_answers.tsv.*hub",
    "learning_curves": r"sst2/dev.tsv.*https://",
    "lm": r"wikitext-2/train.txt.*https://",
    "mask_cost": r"cifar10_12k.npz.*https://",
    "mask_cost_classes": r"cifar10_12k.npz.*https://",
    "mask_cost_run": r"cifar10_12k.npz.*https://",
    "mask_dropout": r"cifar10_12k.npz.*https://",
    "real_models": r"sst2/dev.tsv.*https://",
    "runtime": r"mnli/train.tsv.*https://",
    "self_influence": r"cifar10.*https://",
    "side_effects": r"sst2/dev.tsv.*https://",
    "wrong_labels": r"sst2/train.tsv.*https://",
}
# What a toy is too small for: its encoder has two blocks, its replicas and tasks are fewer.
TOO_SMALL = {
    "calibration": "null.replicas_8.",
    "compared": "tasks.sst2.",
    "curvature_intervals": ("tasks.sst2.", "tasks.yahoo."),
    "mask_cost": "kinds.mlp.",
    "mask_cost_run": "data.digits.64 units.",
    "own_row": "tasks.sst2.",
    "own_row_recipes": "tasks.",
    "runtime": "at.ratio.han2020.3 ",
    "self_influence": "tasks.",
    "variants": "ceiling.10 ",
}


@pytest.mark.parametrize("name", experiments())
def test_the_page_shows_every_finding_and_all_its_figures(name, run_toy, tmp_path):
    toy = run_toy(name)
    text = toy.page
    assert text.startswith("# ")
    findings = module_of(name, "page").findings(toy.result)
    assert findings
    assert all(finding.rule for finding in findings if finding.claim)
    figures = re.findall(r"!\[.+?\]\((.+?)\)", text)
    assert publish(toy.record, tmp_path).read_text(encoding="utf-8") == text
    for figure in figures:
        drawn = (toy.pages / figure).read_text(encoding="utf-8")
        assert drawn.count("<svg") == 1
        assert (tmp_path / figure).read_text(encoding="utf-8") == drawn  # the same numbers give the same file
    if name not in ("calibration", "compared", "laws", "real_models", "table1"):  # their pages have tables alone
        assert all(finding.agreement in text for finding in findings)


@pytest.mark.parametrize("name", experiments())
def test_what_is_measured_is_not_measured_again(name, run_toy):
    toy = run_toy(name)
    before = {file: file.stat().st_mtime_ns for file in toy.folder.rglob("*.[jn][sp]*")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = module_of(name, "run").run(module_of(name, "config").SIZES["toy"], toy.folder)
    assert json.loads(json.dumps(as_json(again))) == toy.record["result"]
    assert {file: file.stat().st_mtime_ns for file in toy.folder.rglob("*.[jn][sp]*")} == before


@pytest.mark.parametrize("name", experiments())
def test_expected_values_are_numbers_that_results_have(name, run_toy):
    missing = [problem for problem in outside(run_toy(name).record, size="small") if " is None," in problem]
    assert all(problem.startswith(TOO_SMALL[name]) for problem in missing)


@pytest.mark.parametrize("name", NEEDS_DATA)
def test_missing_data_are_named_before_anything_is_trained(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TURNOVER_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDataError, match=NEEDS_DATA[name] + ".*export TURNOVER_DATA"):
        run(name, "toy", tmp_path / "run")
    assert {file.name for file in (tmp_path / "run").rglob("*") if file.is_file()} <= {"config.json", "seconds.json"}

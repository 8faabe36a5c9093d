"""The runner of experiments: one configuration per folder, resumed or rejected, pages and an index."""

import importlib
import json
import sys
from pathlib import Path

import pytest

from turnover_bench.experiments import runner
from turnover_bench.experiments.__main__ import RESULTS, main, run_side_by_side
from turnover_bench.experiments.index import PAPER, write_index
from turnover_bench.experiments.runner import (
    ExperimentError,
    Needs,
    TooSmallError,
    experiments,
    find,
    outside,
    publish,
    run,
)

CONFIG = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Config:
    rows: int
    sizes: tuple[int, ...] = (1, 2)

SIZES = {"toy": Config(1), "small": Config(10), "medium": Config(20), "full": Config(30)}
"""
RUN = """
def run(config, out):
    calls = out / "calls"
    calls.write_text((calls.read_text() if calls.exists() else "") + "x")
    return {"double": 2 * config.rows, "nested": {"list": [1.5, float("nan")]}}
"""
PAGE = """
from turnover_bench.experiments.findings import Finding

def findings(result):
    verdict = "holds" if result["double"] > 30 else "holds in part"
    numbers = "10 (Table | 1)", str(result["double"]), "doubled", "Twice as many."
    test = Finding("half", "–", "5", "halved", "Half as many.", "half the rows", "holds", "five")
    return [Finding("rows", *numbers, "many rows", verdict, "over 30"), test]

def page(result, folder):
    (folder / "doubled_rows.svg").write_text("<svg/>")
    return f"# Doubled rows\\n\\n{result['double']}\\n"
"""


@pytest.fixture
def doubled(tmp_path, monkeypatch):
    """A small real experiment in a folder of its own, found as experiments.doubled_rows."""
    folder = tmp_path / "experiments" / "doubled_rows"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "config": CONFIG, "run": RUN, "page": PAGE}.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "expected.json").write_text(json.dumps({"small": {"double": [15, 25], "nested.list.0": [1, 2]}}))
    package = importlib.import_module("turnover_bench.experiments")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder.parent)])
    monkeypatch.setattr(runner, "HERE", folder.parent)
    yield folder
    for name in [name for name in sys.modules if name.startswith("turnover_bench.experiments.doubled_rows")]:
        del sys.modules[name]


def test_a_finished_run_is_not_run_again(doubled, tmp_path):
    out = tmp_path / "out"
    assert run("doubled_rows", "small", out) == run("doubled_rows", "small", out)
    assert (out / "calls").read_text() == "x"


def test_an_interrupted_run_is_resumed_in_its_folder(doubled, tmp_path):
    out = tmp_path / "out"
    run("doubled_rows", "small", out)
    (out / "result.json").unlink()
    (out / "seconds.json").write_text("100.0")  # of the interrupted call
    assert run("doubled_rows", "small", out)["seconds"] >= 100
    assert (out / "calls").read_text() == "xx"


def test_a_folder_with_a_run_of_another_config_is_refused_and_stays_as_it_was(doubled, tmp_path):
    out = tmp_path / "out"
    record = run("doubled_rows", "small", out)
    with pytest.raises(
        ExperimentError, match=r"another configuration \(size: there small, now toy; rows: there 10, now"
    ):
        run("doubled_rows", "toy", out)
    assert json.loads((out / "result.json").read_text()) == record


def test_a_folder_with_other_files_is_refused(doubled, tmp_path):
    with pytest.raises(ExperimentError, match="holds other files and no run"):
        run("doubled_rows", "toy", tmp_path)


def test_the_index_leads_with_the_claims_of_the_paper_by_the_largest_run(doubled, tmp_path, monkeypatch):
    monkeypatch.setattr("turnover_bench.experiments.index.PAPER", ("doubled_rows",))
    results = tmp_path / "results"
    publish(run("doubled_rows", "small", tmp_path / "small"), results)
    text = write_index(results).read_text()
    row = (
        "| many rows | holds in part | 10 (Table \\| 1) | 20 | doubled | [doubled_rows, small](results/doubled_rows.md)"
    )
    assert row in text
    assert text.index(row) < text.index("### Further tests") < text.index("| half the rows | holds | – | 5 | halved |")
    assert text.index("| half the rows | holds |") < text.index("## The paper, and what we find")
    assert "| many rows | over 30 |" in text.partition("## Rules")[2]
    publish(run("doubled_rows", "medium", tmp_path / "medium"), results)
    text = write_index(results).read_text()
    assert "| many rows | holds | " in text
    assert "[doubled_rows, medium](results/medium/doubled_rows.md) |" in text
    assert row not in text
    assert "| rows | 10 (Table \\| 1) | 40 | medium (0 s of processor time): doubled |" in text


@pytest.mark.parametrize("needs", [Needs(disk=1e9), Needs(memory=1e9)], ids=["disk", "memory"])
def test_a_machine_that_is_too_small_is_told_before_anything_is_written(doubled, tmp_path, needs, monkeypatch):
    monkeypatch.setattr(runner.module_of("doubled_rows", "config"), "NEEDS", {"full": needs}, raising=False)
    with pytest.raises(TooSmallError, match=r"doubled_rows SIZE=full cannot run here: .* 1000000000.0 GB.*SIZE=small"):
        run("doubled_rows", "full", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run("doubled_rows", "small", tmp_path / "out")


@pytest.mark.slow  # two processes of their own
def test_experiments_run_side_by_side_and_those_that_fail_are_named(tmp_path):
    told = []
    names = ["laws", "table1"]
    (tmp_path / "table1-toy").mkdir()
    (tmp_path / "table1-toy" / "other").write_text("not a run")
    assert run_side_by_side(names, size="toy", jobs=2, runs=tmp_path, tell=told.append) == ["table1"]
    assert (tmp_path / "laws-toy" / "result.json").exists()
    assert "holds other files and no run" in (tmp_path / "logs" / "table1-toy.log").read_text()
    assert told[-1].startswith("[2/2] ")


def test_values_outside_the_expected_range_are_told(doubled, tmp_path):
    record = run("doubled_rows", "medium", tmp_path / "out")
    assert outside(record) == []  # no range of this size is known
    assert outside(record, size="small") == ["double is 40, expected from 15 to 25"]
    record["result"] = {"double": 20}
    assert outside(record, size="small") == ["nested.list.0 is None, expected from 1 to 2"]


@pytest.mark.parametrize("size", ["toy", "small"])
def test_the_command_publishes_small_runs_and_no_toys(doubled, tmp_path, capsys, size):
    results = tmp_path / "docs" / "results"
    assert main(["doubled-rows", "--size", size, "--out", str(tmp_path / "out")], results=results) == 0
    assert (tmp_path / "out" / "result.json").exists()
    assert results.exists() == (size == "small")
    assert ("# Doubled rows" in capsys.readouterr().out) == (size == "small")


def test_the_command_ends_with_1_where_a_result_is_not_as_expected(doubled, tmp_path, capsys):
    (doubled / "expected.json").write_text('{"small": {"double": [0, 1]}}')
    assert main(["doubled_rows", "--out", str(tmp_path / "out")], results=tmp_path / "results") == 1
    assert "double is 20, expected from 0 to 1" in capsys.readouterr().out


def test_an_unknown_name_says_which_there_are(capsys):
    with pytest.raises(ExperimentError, match=r"no experiment 'tabel1'. There are: .*table1"):
        find("tabel1")
    with pytest.raises(SystemExit):
        main(["tabel1"])
    assert "There are: " in capsys.readouterr().err


@pytest.mark.parametrize("name", experiments())
def test_an_experiment_has_all_its_parts(name):
    folder = Path(runner.__file__).parent / name
    assert (folder / "README.md").exists()
    assert list(runner.module_of(name, "config").SIZES) == list(runner.SIZES)
    assert all(callable(part) for part in (runner.module_of(name, "run").run, runner.module_of(name, "page").page))


@pytest.mark.parametrize("name", experiments())
def test_expected_values_are_ranges_and_what_is_published_lies_within(name):
    expected = json.loads((Path(runner.__file__).parent / name / "expected.json").read_text())
    assert {"small"} <= {*expected} <= {*runner.SIZES}
    assert all(low < high for ranges in expected.values() for low, high in ranges.values())
    for size, ranges in expected.items():
        file = RESULTS / ("" if size == "small" else size) / f"{name}.json"
        assert bool(ranges) == file.exists()  # what was never run has no ranges yet
        if not ranges:
            continue
        record = json.loads(file.read_text())
        assert record["size"] == size
        assert outside(record) == []


def test_every_result_of_the_paper_is_an_experiment_and_all_say_what_they_found():
    assert set(PAPER) <= set(experiments())
    for file in sorted(RESULTS.glob("*.json")):
        record, name = json.loads(file.read_text()), file.stem
        if name not in experiments():
            continue
        for found in runner.module_of(name, "page").findings(record["result"]):
            assert all((found.what, found.paper, found.ours, found.setting, found.agreement))
            assert bool(found.claim) == (found.verdict is not None)
            assert found.agreement.endswith(".")

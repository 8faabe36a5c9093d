"""`turnover annotate`: likely label errors go out as tasks, and the answers of people come back as marks."""

import json
import shutil

import pandas as pd
import pytest

from tests.ui.terminal.conftest import rejected


@pytest.fixture
def run(runs, tmp_path):
    return shutil.copytree(runs["text"], tmp_path / "RUN")


def answered(tasks, labels):
    choice = {"from_name": "label", "to_name": "content", "type": "choices"}
    return [
        task | {"annotations": [{"result": [choice | {"value": {"choices": [label]}}], "was_cancelled": False}]}
        for task, label in zip(tasks, labels, strict=True)
    ]


def test_tasks_go_out_and_corrected_labels_come_back_as_marks_and_a_file(turnover_, run, tmp_path):
    tasks_file, export, corrected = (tmp_path / name for name in ("tasks.json", "export.json", "corrected.csv"))
    said = turnover_("annotate", run, "--out", tasks_file, "--json")
    assert said.code == 0, said.err
    tasks = json.loads(tasks_file.read_text())
    likely = turnover_("memorized", run, "--json").data["likely_label_errors"]["items"]
    assert [task["data"]["row"] for task in tasks] == [one["row"] for one in likely]
    assert said.data["files"] == [str(tasks_file), str(tmp_path / "tasks.xml")]
    assert "<Choices" in (tmp_path / "tasks.xml").read_text()
    suggested = [task["predictions"][0]["result"][0]["value"]["choices"][0] for task in tasks]
    given = [task["data"]["given_label"] for task in tasks]
    labels = [suggested[0], given[1], *suggested[2:]]
    export.write_text(json.dumps(answered(tasks, labels)))
    said = turnover_("annotate", run, "--labels", export, "--out", corrected)
    assert said.code == 0, said.err
    different = sum(one != other for one, other in zip(labels, given, strict=True))
    assert f"{different} label" in said.words
    assert "confirmed" in said.words
    marks = json.loads((run / "marks.json").read_text())["marks"]
    assert {mark["row"]: mark["label"] for mark in marks} == {
        task["data"]["row"]: label
        for task, label in zip(tasks, labels, strict=True)
        if label != task["data"]["given_label"]
    }
    frame = pd.read_csv(corrected)
    assert str(frame["label"].iloc[tasks[0]["data"]["row"]]) == labels[0]
    rejected(turnover_("annotate", run, "--labels", export, "--out", corrected), "--force")


def test_argilla_gets_records_of_the_likeliest_errors(turnover_, run, tmp_path):
    out = tmp_path / "records.json"
    assert turnover_("annotate", run, "--tool", "argilla", "--most", "2", "--out", out).code == 0
    records = json.loads(out.read_text())
    assert len(records) == 2
    assert not (tmp_path / "records.xml").exists()
    assert records[0]["suggestions"]["label"]["agent"] == "turnover"


def test_answers_that_the_run_does_not_know_are_rejected_and_nothing_is_marked(turnover_, run, tmp_path):
    tasks, export = tmp_path / "tasks.json", tmp_path / "export.json"
    turnover_("annotate", run, "--most", "1", "--out", tasks)
    export.write_text(json.dumps(answered(json.loads(tasks.read_text()), ["purple"])))
    rejected(turnover_("annotate", run, "--labels", export, "--out", tmp_path / "new.csv"), "'purple'")
    export.write_text("no JSON")
    rejected(turnover_("annotate", run, "--labels", export, "--out", tmp_path / "new.csv"), "cannot be read as JSON")
    assert not (run / "marks.json").exists()
    assert not (tmp_path / "new.csv").exists()


def test_a_label_that_is_taken_back_is_no_longer_marked(turnover_, run, tmp_path):
    tasks, export, corrected = (tmp_path / name for name in ("tasks.json", "export.json", "corrected.csv"))
    turnover_("annotate", run, "--most", "1", "--out", tasks)
    task = json.loads(tasks.read_text())[0]
    suggested = task["predictions"][0]["result"][0]["value"]["choices"][0]
    for label, marks in ((suggested, 1), (task["data"]["given_label"], 0)):
        export.write_text(json.dumps(answered([task], [label])))
        said = turnover_("annotate", run, "--labels", export, "--out", corrected, "--force", "--json")
        assert said.data["marks"] == marks
        assert str(pd.read_csv(corrected)["label"].iloc[task["data"]["row"]]) == label


def test_no_file_of_the_run_and_no_data_are_overwritten(turnover_, run, tmp_path):
    data = json.loads((run / "run.json").read_text())
    for out, why in (
        (run / "run.json", "belongs to the run"),
        (run / "marks.json", "belongs to the run"),
        (tmp_path / "tasks.xml", "labeling interface"),
        (tmp_path, "is a folder"),
        (next(iter(data["data"])), "is the data itself"),
    ):
        rejected(turnover_("annotate", run, "--out", out, "--force"), why)


@pytest.mark.parametrize(
    "entry",
    [
        {"data": None},
        {"data": "x"},
        {"data": {"row": 0}, "annotations": {"a": 1}},
        {"data": {"row": 0}, "annotations": ["x"]},
    ],
    ids=str,
)
def test_exports_of_another_form_are_rejected(turnover_, run, tmp_path, entry):
    export = tmp_path / "export.json"
    export.write_text(json.dumps([entry]))
    rejected(turnover_("annotate", run, "--labels", export, "--out", tmp_path / "new.csv"), "entry 0")


def test_corrected_data_keep_their_form(turnover_, run, tmp_path):
    tasks, export = tmp_path / "tasks.json", tmp_path / "export.json"
    turnover_("annotate", run, "--most", "1", "--out", tasks)
    task = json.loads(tasks.read_text())[0]
    export.write_text(json.dumps(answered([task], [task["data"]["given_label"]])))
    rejected(turnover_("annotate", run, "--labels", export, "--out", tmp_path / "new.jsonl"), "ends in .csv")


@pytest.mark.parametrize("kind", ["image", "table"])
def test_images_and_rows_of_tables_are_shown(turnover_, runs, kind, tmp_path):
    out = tmp_path / "tasks.json"
    said = turnover_("annotate", runs[kind], "--out", out, "--most", "3")
    assert said.code == 0, said.err
    for task in json.loads(out.read_text()):
        content = task["data"]["content"]
        assert content.startswith("data:image/png;base64,") if kind == "image" else ": " in content

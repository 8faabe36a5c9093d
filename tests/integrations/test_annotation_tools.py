"""Tasks and records as Label Studio and Argilla read them, and what people said in their exports."""

import json

import pytest

pytest.importorskip("typer", reason="typer is missing: pip install 'turnover[cli]'")

from turnover.errors import DataFileError
from turnover.integrations import (
    AnnotationItem,
    argilla_records,
    label_studio_config,
    label_studio_tasks,
    read_annotations,
)

ITEMS = [
    AnnotationItem(3, 'a "text" & more', "bad & sad", "good", 0.9),
    AnnotationItem(7, "another", "good", "bad & sad", 0.75),
    AnnotationItem(9, "a third", "good", "bad & sad", 0.5),
]
LABELS = ["bad & sad", "good"]


def answered(task, *labels, cancelled=False):
    result = [
        [{"from_name": "label", "to_name": "content", "type": "choices", "value": {"choices": [label]}}]
        for label in labels
    ]
    return task | {"annotations": [{"result": one, "was_cancelled": cancelled} for one in result]}


def test_answers_of_label_studio_come_back_by_row():
    first, second, third = json.loads(json.dumps(label_studio_tasks(ITEMS, source="ab")))
    done = read_annotations(
        [
            answered(first, "good", "good"),
            answered(second, "good", "bad & sad"),
            answered(third, "good", cancelled=True),
        ],
        source="ab",
    )
    assert (done.labels, done.undecided, done.unanswered) == ({3: "good"}, (7,), (9,))


def test_answers_of_argilla_come_back_by_row():
    records = json.loads(json.dumps(argilla_records(ITEMS, source="ab")))
    records[0]["responses"] = {"label": [{"value": "good", "user_id": "1", "status": "submitted"}]}
    records[1]["responses"] = {"label": [{"value": "good", "user_id": "1", "status": "discarded"}]}
    done = read_annotations(records, source="ab")
    assert (done.labels, done.unanswered) == ({3: "good"}, (7, 9))


@pytest.mark.parametrize(
    ("exported", "part"),
    [
        ({"tasks": []}, "not an export of Label Studio or Argilla"),
        (["a"], "not an export of Label Studio or Argilla"),
        ([{"data": {"text": "other"}}], "entry 0 has no row number"),
        ([{"row": True, "label": "good"}], "entry 0 has no row number"),
        (label_studio_tasks(ITEMS, source="cd"), r"entry 0 \(row 3\) was made of other data"),
    ],
)
def test_what_is_no_export_of_these_rows_is_rejected(exported, part):
    with pytest.raises(DataFileError, match=part):
        read_annotations(exported, source="ab")


@pytest.mark.parametrize("kind", ["text", "image", "table"])
def test_label_studio_takes_tasks_and_predictions(kind):
    interface = pytest.importorskip("label_studio_sdk.label_interface", reason="pip install label-studio-sdk")
    project = interface.LabelInterface(label_studio_config(kind, LABELS))
    project.validate()
    for task in label_studio_tasks(ITEMS, source="ab"):
        # Data and predictions apart: of both together label-studio-sdk 2.0.19 forgets an argument.
        assert project.validate_task({"data": task["data"]})
        assert all(project.validate_prediction(prediction) for prediction in task["predictions"])
        wrong = json.loads(json.dumps(task["predictions"][0]).replace('"choices": ["', '"choices": ["no '))
        assert not project.validate_prediction(wrong)


@pytest.mark.filterwarnings("ignore")  # argilla's own
def test_argilla_reads_records_and_its_export_is_read(tmp_path):
    argilla = pytest.importorskip("argilla", reason="pip install argilla")
    from argilla.records._io import JsonIO

    file, export = tmp_path / "records.json", tmp_path / "export.json"
    file.write_text(json.dumps(argilla_records(ITEMS, source="ab")))
    records = JsonIO._records_from_json(file)  # what Dataset.records.from_json does before it uploads
    assert [record.fields["content"] for record in records] == [item.content for item in ITEMS]
    assert [record.suggestions["label"].value for record in records] == [item.suggestion for item in ITEMS]
    user = "2d57d2f6-7b58-4a4e-8d6a-2f5b0b6d6a3e"
    records[0].responses.add(argilla.Response("label", "good", user_id=user, status="submitted"))
    JsonIO.to_json(records, export)  # what Dataset.records.to_json does
    done = read_annotations(json.loads(export.read_text()), source="ab")
    assert (done.labels, done.unanswered) == ({3: "good"}, (7, 9))

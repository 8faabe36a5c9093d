"""Runs by groups, with adapters and of numbers are asked as others are; what makes no sense is rejected in words."""

import pytest

from tests.ui.small_runs import GOOD

PAGES = ["/", "/?row=3", "/rows", "/rows?order=errors", "/marks", "/api"]


def test_a_run_by_groups_answers_with_groups_and_how_many_rows_they_have(groups):
    found = groups.post("/api/explain", json={"text": "a bright, warm film", "k": 3})
    assert found.status_code == 200, found.text
    examples = found.json()["supporting"] + found.json()["opposing"]
    assert examples
    assert all(example["group"].startswith("annotator ") for example in examples)
    assert all(example["rows"] > 10 for example in examples)
    assert groups.get("/api/run").json()["groups"] == 8


def test_examples_of_one_label_are_refused_where_groups_have_several_and_not_offered(groups, texts):
    rejected = groups.post("/api/explain", json={"row": 3, "examples_of": GOOD})
    assert rejected.status_code == 422
    assert "Ask for examples of all labels." in rejected.json()["detail"]
    assert 'name="examples_of"' not in groups.get("/").text
    assert 'name="examples_of"' in texts.get("/").text


def test_a_run_with_adapters_answers(adapters):
    for question in (
        {"text": "a bright, warm film"},
        {"row": 3, "examples_of": "all"},
        {"row": 3, "examples_of": GOOD},
    ):
        found = adapters.post("/api/explain", json={**question, "k": 3})
        assert found.status_code == 200, found.text
        assert found.json()["supporting"] + found.json()["opposing"]


@pytest.mark.parametrize("name", ["groups", "adapters", "numbers"])
def test_all_pages_of_such_runs_are_there(request, name):
    client = request.getfixturevalue(name)
    assert {page: client.get(page).status_code for page in PAGES} == dict.fromkeys(PAGES, 200)


def test_a_run_of_numbers_answers_with_a_number_and_rows_that_raise_and_lower_it(numbers):
    found = numbers.post("/api/explain", json={"row": 3, "values": {"a": 0.9}, "k": 3}).json()
    assert found["numeric"]
    assert found["probability"] is None
    assert found["probabilities"] == []
    assert found["predicted"] > numbers.post("/api/explain", json={"row": 3, "values": {"a": 0.1}}).json()["predicted"]
    assert all(example["score"] > 0 and example["label"] > 0 for example in found["supporting"])
    about = numbers.get("/api/run").json()
    assert (about["task"], about["labels"]) == ("regression", [])
    page = numbers.get("/?row=3").text
    assert "Raising examples" in page
    assert "Lowering examples" in page
    assert 'name="examples_of"' not in page
    assert "RMSE" in page
    assert "classes" not in page
    rejected = numbers.post("/api/explain", json={"row": 3, "examples_of": "100"})
    assert rejected.status_code == 422
    assert "numbers" in rejected.json()["detail"]


def test_rows_of_numbers_come_by_their_distance_and_are_corrected_by_a_number(numbers):
    rows = numbers.get("/api/rows").json()["rows"]
    distances = [abs(row["residual"]) for row in rows]
    assert distances == sorted(distances, reverse=True)
    assert rows[0]["likely_label_error"]
    assert rows[0]["label_quality"] is None
    assert "times the usual distance" in numbers.get("/rows").text
    assert numbers.get("/api/rows?label=100").status_code == 422
    row = rows[0]["row"]
    for wrong in ("soon", "inf", "nan"):
        assert "finite number" in numbers.put(f"/api/marks/{row}", json={"label": wrong}).json()["detail"]
    assert numbers.put(f"/api/marks/{row}", json={"label": "123.5"}).status_code == 200
    before = numbers.app.state.site.run.config.data
    lines = numbers.get("/api/corrected").text.splitlines()
    with open(before, encoding="utf-8") as file:
        changed = [(old, new) for old, new in zip(file.read().splitlines(), lines, strict=True) if old != new]
    assert len(changed) == 1
    assert changed[0][1].split(",")[3] == "123.5"

"""Runs by groups and with adapters are asked as others are; what makes no sense there is rejected in a sentence."""

import pytest

from tests.ui.small_runs import GOOD

PAGES = ["/", "/?row=3", "/?text=a+bright+film", "/rows", "/marks", "/api"]


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


@pytest.mark.parametrize("name", ["groups", "adapters"])
def test_all_pages_of_such_runs_are_there(request, name):
    client = request.getfixturevalue(name)
    assert {page: client.get(page).status_code for page in PAGES} == dict.fromkeys(PAGES, 200)

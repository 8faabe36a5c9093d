"""The API answers as the library does, rejects with sentences, and describes itself."""

import io
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.ui.small_runs import BAD, GOOD
from turnover.applications import explain

SENTENCE = "a bright and funny film with a boring plot"


def _scores(examples):
    return [example["score"] for example in examples]


def test_an_answer_is_that_of_the_library(texts, text_run):
    answer = texts.post("/api/explain", json={"text": SENTENCE, "k": 5}).json()
    found = explain(text_run.influence, text_run.inputs([SENTENCE]), k=5, same_label="supporting")[0]
    assert answer["predicted"] == text_run.label_names[found.predicted]
    assert answer["probability"] == pytest.approx(found.probability, abs=1e-5)
    assert [example["row"] for example in answer["supporting"]] == [reason.id for reason in found.supporting]
    assert [example["row"] for example in answer["opposing"]] == [reason.id for reason in found.opposing]
    assert _scores(answer["supporting"]) == pytest.approx([reason.score for reason in found.supporting], rel=1e-4)
    stderr = [example["stderr"] for example in answer["supporting"]]
    assert stderr == pytest.approx([reason.stderr for reason in found.supporting], rel=1e-4)
    assert answer["significant_supporting"] == found.significant_supporting
    assert answer["significant_opposing"] == found.significant_opposing


def test_an_address_with_a_slash_too_many_is_not_there_and_nothing_is_redirected(texts):
    assert texts.get("/api/rows").status_code == 200
    assert texts.get("/api/rows/", follow_redirects=False).status_code == 404


def test_supporting_examples_have_the_predicted_label_and_shared_words_are_marked(texts, text_run):
    answer = texts.post("/api/explain", json={"text": "a bright, moving film"}).json()
    assert answer["predicted"] == GOOD
    assert {example["label"] for example in answer["supporting"]} == {GOOD}
    assert min(_scores(answer["supporting"])) > 0 > max(_scores(answer["opposing"]))
    examples = answer["supporting"]
    assert all(example["shown"]["text"] == text_run.rows.values[example["row"]] for example in examples)
    shared = {example["shown"]["text"][slice(*span)] for example in examples for span in example["shared_spans"]}
    assert shared <= {"bright", "moving", "film"}
    assert shared & {"bright", "moving"}
    assert {answer["text"][slice(*span)] for span in answer["shared_spans"]} >= shared


@pytest.mark.parametrize("label", [GOOD, BAD])
def test_examples_can_be_filtered_by_label(texts, text_run, label):
    asked = {"text": SENTENCE, "k": 50, "examples_of": label}
    answer = texts.post("/api/explain", json=asked).json()
    both = [*answer["supporting"], *answer["opposing"]]
    assert both
    assert {example["label"] for example in both} == {label}
    every = texts.post("/api/explain", json={**asked, "examples_of": "all"}).json()
    known = {e["row"]: e["score"] for e in [*every["supporting"], *every["opposing"]] if e["label"] == label}
    found = {example["row"]: example["score"] for example in both}
    assert known
    assert all(found[row] == pytest.approx(score, rel=1e-4) for row, score in known.items() if row in found)


def test_a_row_can_be_asked_about_and_has_its_held_out_prediction(texts, text_run):
    row = int(text_run.places("train")[0])
    answer = texts.post("/api/explain", json={"row": row}).json()
    unseen = text_run.out_of_sample.probs[0]
    label = int(text_run.rows.labels[row])
    assert answer["asked"]["row"] == row
    assert answer["asked"]["label_quality"] == pytest.approx(float(unseen[label]), abs=1e-5)
    assert answer["asked"]["held_out_label"] == text_run.label_names[unseen.argmax()]
    assert answer["asked"]["suggested"] == text_run.label_names[1 - label]


def test_an_image_that_is_sent_is_answered_like_the_row_it_was(images, image_run):
    from PIL import Image

    row = int(image_run.places("test")[0])
    file = io.BytesIO()
    Image.fromarray(image_run.rows.values[row][..., 0]).save(file, "PNG")
    sent = images.post("/api/explain/image?k=4", files={"image": ("bar.png", file.getvalue(), "image/png")}).json()
    known = images.post("/api/explain", json={"row": row, "k": 4}).json()
    assert sent["image"].startswith("data:image/png;base64,")
    assert sent["predicted"] == known["predicted"]
    assert _scores(sent["supporting"]) == pytest.approx(_scores(known["supporting"]))
    picture = images.get(known["supporting"][0]["shown"]["image"])
    assert picture.headers["content-type"] == "image/png"
    shown = np.asarray(Image.open(io.BytesIO(picture.content)))
    assert np.array_equal(shown, image_run.rows.values[known["supporting"][0]["row"]][..., 0])


def test_a_changed_value_of_a_table_changes_the_prediction(tables, table_run):
    row = int(table_run.places("test")[0])
    size = "<b>size</b>"
    low, high = (
        tables.post("/api/explain", json={"row": row, "values": {size: value}}).json() for value in ("-2.5", 2.5)
    )
    assert (low["predicted"], high["predicted"]) == ("small", "large")
    cells = {cell["name"]: cell["value"] for cell in low["cells"]}
    assert cells[size] == "-2.5"
    assert low["asked"] is None  # it is not a row of the data any more
    alone = tables.post("/api/explain", json={"values": {size: 2.5, "color": "red"}}).json()
    assert alone["predicted"] == "large"
    assert {cell["name"]: cell["value"] for cell in alone["cells"]}["weight"] == ""
    deviation = table_run.rows.values[size].iloc[table_run.places("train")].std()
    for example in high["supporting"]:
        near = abs(table_run.rows.values[size].iloc[example["row"]] - 2.5) <= 0.1 * deviation
        assert (size in example["near_columns"]) == near


@pytest.mark.parametrize(
    ("client", "question", "sentence"),
    [
        ("texts", {"text": "  "}, "Type a sentence"),
        ("texts", {}, "nothing was given"),
        ("texts", {"text": "x", "row": 1}, "text and row was given"),
        ("texts", {"values": {"a": 1}}, "this run is about texts"),
        ("texts", {"text": "x", "examples_of": "neutral"}, "no label 'neutral'"),
        ("texts", {"row": 10**6}, "there is no row 1000000"),
        ("texts", {"row": -1}, "row: Input should be greater"),
        ("texts", {"text": "x", "k": 1000}, "k: Input should be less"),
        ("texts", {"text": "x" * 20_001}, "text: String should have at most"),
        ("texts", {"text": "x", "other": 1}, "other: Extra inputs"),
        ("images", {"text": "a bar"}, "upload an image"),
        ("tables", {"values": {"colur": "red"}}, "Did you mean 'color'"),
        ("tables", {"values": {"weight": "heavy"}}, "'heavy' in column 'weight' must be a number"),
        ("tables", {"values": {"weight": "1e999"}}, "must be finite"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_a_sentence(request, client, question, sentence):
    answer = request.getfixturevalue(client).post("/api/explain", json=question)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


def test_half_a_letter_is_refused(texts):
    sent = b'{"text": "a \\ud800 b"}'
    answer = texts.post("/api/explain", content=sent, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422


def test_while_the_model_warms_up_questions_are_told_to_come_again(served, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("turnover.runs.run.Run.predict", lambda self, values: go_on.wait(20))
    client = served("text", ready=False)
    try:
        answer = client.post("/api/explain", json={"text": "x"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert "warming up" in answer.json()["detail"]
        assert client.get("/api/state").json()["state"] == "warming up"
        page = client.get("/?text=x")
        assert page.status_code == 200
        assert "Warming up" in page.text
        assert 'http-equiv="refresh"' in page.text
    finally:
        go_on.set()


def test_a_model_that_cannot_be_loaded_is_told_of_and_not_waited_for(served, monkeypatch):
    from turnover.errors import RunError

    def fail(self, values):
        raise RunError("the encoder is gone. Put it back.")

    monkeypatch.setattr("turnover.runs.run.Run.predict", fail)
    client = served("text")
    assert client.get("/api/state").json()["state"] == "failed"
    answer = client.post("/api/explain", json={"text": "x"})
    assert answer.status_code == 422
    assert "the encoder is gone. Put it back." in answer.json()["detail"]
    assert "Put it back" in client.get("/").text


def test_a_full_queue_and_a_slow_model_answer_in_time(served, monkeypatch):
    client = served("text", most_waiting=1, seconds=0.5)
    go_on = threading.Event()
    monkeypatch.setattr("turnover.ui.web.site.Site.answer_now", lambda self, question: go_on.wait(20) and None)
    began = time.monotonic()
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: client.post("/api/explain", json={"row": 1}), range(6)))
    took = time.monotonic() - began
    go_on.set()
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [503, 503, 503, 503, 504, 504]
    assert took < 10
    full = next(answer for answer in answers if answer.status_code == 503)
    assert "Try again" in full.json()["detail"]
    assert "retry-after" in full.headers


def test_many_clients_at_once_get_each_their_own_answer(texts, text_run):
    sentences = [f"a {word} {thing}" for word in ("bright", "boring", "warm", "flat") for thing in ("film", "plot")]
    alone = [texts.post("/api/explain", json={"text": text}).json() for text in sentences]
    with ThreadPoolExecutor(8) as pool:
        many = list(pool.map(lambda n: texts.post("/api/explain", json={"text": sentences[n % 8]}).json(), range(24)))
    for number, answer in enumerate(many):
        wanted = alone[number % 8]
        assert {**answer, "seconds": 0} == {**wanted, "seconds": 0}


def test_the_description_names_every_route_with_its_answers_and_comes_without_a_cdn(texts):
    openapi = texts.get("/openapi.json").json()
    assert set(openapi["paths"]) == {
        "/api/run", "/api/state", "/api/explain", "/api/rows", "/api/rows/{row}", "/api/marks",
        "/api/marks/{row}", "/api/corrected",
    }  # fmt: skip
    assert {"200", "422", "503", "504"} <= set(openapi["paths"]["/api/explain"]["post"]["responses"])
    page = texts.get("/api").text
    for path in openapi["paths"]:
        assert path in page
    assert texts.get("/docs").status_code == texts.get("/redoc").status_code == 404
    assert "//cdn" not in page


def test_rows_come_likely_label_errors_first_and_can_be_filtered(texts, text_run):
    found = texts.get("/api/rows", params={"split": "train", "most": 10}).json()
    order = [(not row["likely_label_error"], row["label_quality"]) for row in found["rows"]]
    assert order == sorted(order)
    assert found["total"] == len(text_run.places("train"))
    good = texts.get("/api/rows", params={"label": GOOD, "words": "FILM", "order": "file"}).json()["rows"]
    assert good
    assert all(row["label"] == GOOD and "film" in row["text"] for row in good)
    assert [row["row"] for row in good] == sorted(row["row"] for row in good)
    assert texts.get("/api/rows", params={"split": "dev"}).status_code == 422


def test_what_is_served_is_told(texts, text_run):
    about = texts.get("/api/run").json()
    assert about["kind"] == "text"
    assert about["labels"] == list(text_run.label_names)
    assert sum(about["rows"].values()) == 160
    assert about["state"]["state"] == "ready"
    assert texts.get("/api/rows/0").json()["text"] == text_run.rows.values[0]
    assert texts.get("/api/nothing").status_code == 404

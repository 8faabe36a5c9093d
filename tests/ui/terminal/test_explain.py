"""`turnover explain`: the rows behind a prediction, for texts, tables and images."""

import pytest

from tests.ui.terminal.conftest import rejected


def test_a_new_text_shows_rows_of_the_predicted_label_and_where_they_stand(turnover_, text_run):
    said = turnover_("explain", text_run, "--query", "a lovely and warm film", "-k", "3")
    assert said.code == 0, said.err
    for part in ("Prediction: ", "Examples supporting", "±", "loss at the predicted label"):
        assert part in said.words


def test_json_has_rows_labels_by_name_and_errors(turnover_, text_run):
    data = turnover_("explain", text_run, "--query", "a lovely and warm film", "-k", "3", "--json").data
    item, texts = data["items"][0], {row["row"]: row["text"] for row in data["rows"]}
    assert item["predicted"] in ("good", "bad")
    assert item["label"] is None
    for reason in item["supporting"]:
        assert reason["label"] == item["predicted"]
        assert reason["score"] > 0
        assert reason["stderr"] > 0
        assert reason["name"] == f"line {reason['row'] + 2}"
        assert texts[reason["row"]].endswith(f"film number {reason['row']}")


def test_errors_come_the_most_confident_first(turnover_, text_run):
    found = turnover_("explain", text_run, "--errors", "--most", "2", "-k", "2", "--json").data
    assert 1 <= len(found["items"]) <= 2
    assert all(item["error"] for item in found["items"])
    probabilities = [item["probability"] for item in found["items"]]
    assert probabilities == sorted(probabilities, reverse=True)
    assert found["count"] >= len(found["items"])
    assert f"{found['count']} error" in found["note"]


def test_cells_of_a_table_are_given_by_name_and_missing_ones_are_told(turnover_, runs):
    said = turnover_("explain", runs["table"], "--query", "weight=2.5", "-k", "2")
    assert said.code == 0, said.err
    assert "treated as missing: <b>size</b>, color" in said.words
    same = turnover_("explain", runs["table"], "--query", '{"weight": 2.5}', "-k", "2", "--json").data["items"][0]
    pairs = turnover_("explain", runs["table"], "--query", "weight=2.5", "-k", "2", "--json").data["items"][0]
    assert same["probability"] == pairs["probability"]


def test_that_nothing_is_significant_beside_small_errors_is_explained(turnover_, text_run):
    said = turnover_("explain", text_run, "--errors", "--most", "1", "-k", "20")
    assert said.code == 0, said.err
    assert "the replicas disagree" in said.words
    assert "if it differs from 0 by more than the 3 replicas disagree, corrected for all training rows" in said.words
    assert "Method: influence functions (K-FAC curvature)" in said.words


def test_a_run_of_one_replica_says_that_there_is_no_interval(turnover_, tmp_path):
    from tests.ui.small_runs import table_run

    run = table_run(tmp_path, replicas=1, hidden=16, epochs=10)
    folder = run.folder.path
    for command in (("explain", folder, "--row", "0"), ("cleanse", folder, "--drop", "2")):
        said = turnover_(*command)
        assert said.code == 0, said.err
        assert "of 1 replica have no interval" in said.words, said.words
        assert "--replicas 3 or more" in said.words
        assert "ignificant" not in said.words
    said = turnover_("cleanse", folder, "--drop", "significant", "--force")
    assert said.code == 2
    assert "which rows are significant is not known: scores of a single network have no interval" in said.err
    said = turnover_("report", folder)
    page = run.folder.report.read_text(encoding="utf-8")
    assert "of 1 replica have no interval" in page
    assert ">p-value<" not in page


def test_an_image_is_drawn_and_explained(turnover_, runs):
    image = runs["image"].parent / "bars" / "stands" / "01.png"
    said = turnover_("explain", runs["image"], "--image", image, "-k", "2")
    assert said.code == 0, said.err
    assert "█" in said.out
    assert "01.png" in said.words


def test_a_row_is_asked_for_by_its_number_or_by_its_name_in_the_report(turnover_, text_run):
    by_number, by_name = (
        turnover_("explain", text_run, "--row", row, "--json").data["items"][0] for row in ("3", "line 5")
    )
    assert by_name == by_number
    assert by_number["name"] == "line 5"
    assert "line 5," in turnover_("explain", text_run, "--row", "line 5").words


@pytest.mark.parametrize(
    ("kind", "options", "parts"),
    [
        ("text", [], ["nothing to explain", "--errors"]),
        ("text", ["--row", "1", "--errors"], ["--row and --errors", "Give one"]),
        ("text", ["--row", "999"], ["from 0 to 59", "such as 'line 2'"]),
        ("text", ["--row", "line 999"], ["there is no row 'line 999'", "Did you mean"]),
        ("text", ["--query", "  "], ["is empty"]),
        ("text", ["--image", "a.png"], ["--query"]),
        ("image", ["--image", "a.png"], ["'a.png' cannot be opened as an image"]),
        ("image", ["--image", "b.png"], ["there is no such file"]),
        ("table", ["--query", "width=3"], ["'width'", "'color', 'weight'"]),
        ("table", ["--query", "{weight"], ["is not JSON"]),
        ("table", ["--query", "nothing"], ["no column"]),
        # Treated as missing, a word in a column of numbers would explain another row than was asked about.
        ("table", ["--query", "weight=big"], ["'big' in column 'weight' must be a number", "leave it empty"]),
        ("table", ["--query", '{"weight": "big"}'], ["'big' in column 'weight' must be a number"]),
        ("table", ["--query", "weight=inf"], ["'inf' in column 'weight' must be finite"]),
    ],
)
def test_what_cannot_be_explained_is_told_with_what_to_type(turnover_, runs, tmp_path, kind, options, parts):
    (tmp_path / "a.png").write_text("no image")
    rejected(turnover_("explain", runs[kind], *options), *parts)

"""From a file to rows: kinds and columns are detected, unusable rows are rejected or skipped with a note."""

import numpy as np
import pandas as pd
import pytest

from turnover.errors import DataFileError
from turnover.runs._reading import read_rows
from turnover.runs.columns import nearest
from turnover.runs.config import RunConfig

REVIEWS = [
    (f"a fairly {word} film, number {number}", "good" if number % 2 else "bad")
    for number, word in enumerate(
        ["long", "short", "dull", "fine", "odd", "new", "old", "sad", "loud", "calm", "red", "blue"]
    )
]


@pytest.fixture
def csv_file(tmp_path):
    def write(columns, name="rows.csv"):
        path = tmp_path / name
        pd.DataFrame(columns).to_csv(path, index=False)
        return str(path)

    return write


@pytest.fixture
def reviews(csv_file):
    return csv_file({"text": [text for text, _ in REVIEWS], "label": [label for _, label in REVIEWS]})


@pytest.fixture
def table(csv_file):
    rng = np.random.default_rng(0)
    return csv_file(
        {
            "customer_id": np.arange(60) + 1000,
            "age": rng.integers(18, 90, 60),
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 60),
            "income": np.where(np.arange(60) % 6 == 0, np.nan, rng.random(60).round(3)),
            "nothing": [np.nan] * 60,
            "always": ["x"] * 60,
            "bought": np.arange(60) % 2 == 0,
        },
        "table.csv",
    )


def test_texts_and_labels_are_found_by_their_names(reviews):
    rows = read_rows(RunConfig(reviews))
    assert rows.kind == "text"
    assert rows.values == [text for text, _ in REVIEWS]
    assert rows.label_names == ("bad", "good")
    assert [rows.label_names[label] for label in rows.labels] == [label for _, label in REVIEWS]
    assert rows.names[:2] == ["line 2", "line 3"]
    assert rows.data.column("text").to_pylist() == rows.values
    assert (rows.splits == -1).all()


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (("Sentence", "Sentiment"), {}),
        (("body_of_mail", "kind"), {"text": "body_of_mail"}),
        (("body_of_mail", "kind"), {"label": "kind"}),
        (("body_of_mail", "kind"), {"text": "body_of_mail", "label": "kind"}),
        (("whatever", "label"), {"task": "text"}),
    ],
)
def test_columns_are_those_asked_for_or_obvious_or_the_only_other_one(csv_file, columns, options):
    file = csv_file(dict(zip(columns, zip(*REVIEWS, strict=True), strict=True)))
    rows = read_rows(RunConfig(file, **options))
    assert rows.kind == "text"
    assert rows.label_column == columns[1]
    assert rows.values[0] == REVIEWS[0][0]


def test_a_table_is_learned_from_all_useful_columns_and_says_which_were_left_out(table):
    rows = read_rows(RunConfig(table, label="bought"))
    assert rows.kind == "table"
    assert list(rows.values.columns) == ["age", "town", "income"]
    assert rows.values["age"].dtype == np.float64
    assert rows.values["income"].isna().sum() == 10
    assert set(rows.values["town"]) == {"Ulm", "Bonn", "Kiel"}
    assert rows.label_names == ("False", "True")
    notes = " ".join(rows.notes)
    for part in (
        "no value in any row: 'nothing'",
        "same value in every row: 'always'",
        "'customer_id'",
        "'income' (10)",
    ):
        assert part in notes


def test_missing_values_in_many_spellings_leave_a_column_of_numbers_one(csv_file):
    file = csv_file({"x": ["1", "NA", "2.5", "?", "-", "null", "1e3", "7"], "y": list("abababab")})
    values = read_rows(RunConfig(file, label="y")).values["x"]
    assert values.dropna().tolist() == [1, 2.5, 1000, 7]
    assert values.isna().sum() == 4


def test_numbers_that_are_infinite_count_as_missing(csv_file):
    file = csv_file({"x": ["1", "inf", "-inf", "4"], "z": list("pqpq"), "y": list("abab")})
    assert read_rows(RunConfig(file, label="y")).values["x"].isna().tolist() == [False, True, True, False]


HOLES = {
    "text": ["good one", " ", "fine two", None, "bad three", "dull four", "sad five", "ok six"],
    "label": ["1", "0", None, "0", "0", "1", "0", " "],
}


def test_rows_without_label_or_text_are_refused_by_line_with_all_problems_at_once(csv_file):
    with pytest.raises(DataFileError) as rejected:
        read_rows(RunConfig(csv_file(HOLES)))
    said = str(rejected.value)
    assert "2 rows without a label in column 'label' (line 4, line 9)" in said
    assert "2 rows without text in column 'text' (line 3, line 5)" in said
    assert said.endswith("Correct or remove them, or skip them: --skip-bad")


def test_rows_without_label_or_text_are_left_out_with_a_note_where_that_was_asked_for(csv_file):
    rows = read_rows(RunConfig(csv_file(HOLES), skip_bad=True))
    assert rows.values == ["good one", "bad three", "dull four", "sad five"]
    assert rows.names == ("line 2", "line 6", "line 7", "line 8")
    assert rows.data.num_rows == 4
    assert "2 rows without a label in column 'label' skipped (line 4, line 9)." in rows.notes
    assert "2 rows without text in column 'text' skipped (line 3, line 5)." in rows.notes


def test_a_nan_among_the_labels_of_a_table_is_refused_while_missing_cells_are_learned_from(csv_file):
    columns = {"x": ["1", "NaN", "3", "", "5", "6"], "y": ["a", "b", "a", "b", "a", "b"]}
    rows = read_rows(RunConfig(csv_file(columns), label="y"))
    assert any("Missing values, which an input of their own marks: 'x' (2)" in note for note in rows.notes)
    file = csv_file(columns | {"y": ["a", "b", "a", "b", "NaN", "b"]})
    with pytest.raises(DataFileError, match=r"1 row without a label in column 'y' \(line 6\).*--skip-bad"):
        read_rows(RunConfig(file, label="y"))
    assert len(read_rows(RunConfig(file, label="y", skip_bad=True))) == 5


def test_files_of_validation_and_test_rows_fix_their_splits(csv_file, reviews):
    other = csv_file({"text": ["something else", REVIEWS[0][0]], "label": ["good", "bad"]}, "other.csv")
    rows = read_rows(RunConfig(reviews, validation_data=other))
    assert rows.splits.tolist() == [-1] * 12 + [1] * 2
    assert rows.names[-1] == "other.csv line 3"
    assert any("1 validation rows also stand among the training rows" in note for note in rows.notes)


def test_rows_that_repeat_others_are_counted_and_told_if_their_labels_differ(csv_file):
    texts = [*(text for text, _ in REVIEWS), REVIEWS[0][0].upper(), REVIEWS[1][0]]
    file = csv_file({"text": texts, "label": [*(label for _, label in REVIEWS), "bad", "bad"]})
    notes = " ".join(read_rows(RunConfig(file)).notes)
    assert "2 rows repeat another one; 1 of what is repeated has different labels" in notes


def test_groups_come_from_their_column_and_rows_without_one_stand_alone(csv_file):
    who = ["ann", "ben", "", "cy", "ann", "ben", "ann", "", "cy", "cy", "ben", "ann"]
    file = csv_file({"text": [t for t, _ in REVIEWS], "label": [y for _, y in REVIEWS], "who": who})
    rows = read_rows(RunConfig(file, group="who"))
    assert rows.groups[:5] == ["ann", "ben", "line 4", "cy", "ann"]
    assert any("2 rows without a group" in note for note in rows.notes)


def test_fewer_rows_are_drawn_by_the_seed_with_classes_in_proportion(csv_file):
    file = csv_file({"text": [f"text number {n}" for n in range(100)], "label": ["rare"] * 20 + ["often"] * 80})
    drawn = [read_rows(RunConfig(file, max_rows=10, seed=seed)) for seed in (0, 0, 1)]
    assert all(np.bincount(rows.labels).tolist() == [8, 2] for rows in drawn)
    assert drawn[0].values == drawn[1].values != drawn[2].values
    assert [int(text.split()[-1]) for text in drawn[0].values] == sorted(int(t.split()[-1]) for t in drawn[0].values)
    assert len(read_rows(RunConfig(file, max_rows=1000))) == 100


def few(count, **columns):
    return {"text": [f"some text {n}" for n in range(count)], **columns}


PROSE = [f"some words and {n}" for n in range(60)]

REFUSED = {
    "missing column": (few(6, label=list("ababab")), {"text": "txt"}, r"no column 'txt'\. Did you mean --text text\?"),
    "missing label": (few(6, label=list("ababab")), {"label": "lable"}, "Did you mean --label label"),
    "column far off": (few(6, label=list("ababab")), {"text": "zzz"}, "Its columns are 'text', 'label'"),
    "no label at all": (few(6, alpha=list("ababab")), {}, r"is the label\? Name it: --label alpha"),
    "which text": ({"a": REVIEWS, "b": REVIEWS, "y": list("ab") * 6}, {"task": "text", "label": "y"}, "which column"),
    "no header": ({"12.5": [1.0] * 6, "3": [1, 2] * 3}, {"label": "y"}, "'12.5' does not look like one"),
    "text is label": (few(6, label=list("ababab")), {"text": "label", "label": "label"}, "Give two columns"),
    "one class": (few(6, label=["a"] * 6), {}, "one class only, 'a', in 6 rows"),
    "one row": (few(1, label=["a"]), {}, "has 1 row with a label.*at least 4 rows of two classes"),
    "three rows": (few(3, label=list("aba")), {}, "has 3 rows with a label.*at least 4"),
    "no labels": (few(6, label=[""] * 6), {}, "no row of .* has a label"),
    "empty texts": ({"text": [" "] * 6, "label": list("ababab")}, {"text": "text"}, "no text in any row"),
    "all different": (
        few(30, label=[f"id{n}" for n in range(30)]),
        {},
        "30 different values in 30 rows.*is this the l",
    ),
    "many classes": (few(9000, label=[n % 1001 for n in range(9000)]), {}, "1,001 different values.*1,000 classes"),
    "numbers": (few(90, label=range(0, 270, 3)), {"task": "classification"}, "or learn numbers: --task regr"),
    "two texts": (
        {"p": PROSE, "q": PROSE, "label": list("ab") * 30},
        {"label": "label"},
        "--text 'p' learns from texts",
    ),
    "label learned": (few(6, label=list("ababab")), {"columns": ("label",)}, "--columns has the label"),
    "few groups": (few(6, label=list("ababab"), who=["x"] * 6), {"group": "who"}, "1 groups.*three groups"),
    "no such group": (few(6, label=list("ababab")), {"group": "who"}, "no column 'who'"),
    "image task": (few(6, label=list("ababab")), {"task": "image"}, "is a table. For images give their folder"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_learned_says_what_to_do(csv_file, case):
    columns, options, message = REFUSED[case]
    with pytest.raises(DataFileError, match=message):
        read_rows(RunConfig(csv_file(columns), **options))


def test_labels_that_no_training_row_has_are_refused_or_left_out(csv_file, reviews):
    other = csv_file({"text": ["something else", "and this"], "label": ["ugly", "good"]}, "other.csv")
    with pytest.raises(
        DataFileError, match=r"1 row with a label that no training row has, 'ugly', \(other\.csv line 2\)"
    ):
        read_rows(RunConfig(reviews, test_data=other))
    rows = read_rows(RunConfig(reviews, test_data=other, skip_bad=True))
    assert rows.label_names == ("bad", "good")
    assert rows.splits.tolist() == [-1] * 12 + [2]
    assert any("'ugly', skipped (other.csv line 2)" in note for note in rows.notes)


def test_a_validation_file_without_the_columns_is_refused_by_its_name(csv_file, reviews, table):
    other = csv_file({"texts": ["something else"], "label": ["good"]}, "other.csv")
    with pytest.raises(DataFileError, match=r"other\.csv' has no column 'text'.*texts"):
        read_rows(RunConfig(reviews, validation_data=other))
    with pytest.raises(DataFileError, match=r"other\.csv' has no column 'age'"):
        read_rows(RunConfig(table, label="bought", test_data=csv_file({"bought": [True]}, "other.csv")))


def test_a_file_that_is_not_there_is_refused_with_the_nearest_name(reviews, tmp_path):
    with pytest.raises(DataFileError, match=r"no file .*row\.csv'\. Did you mean '.*rows\.csv'"):
        read_rows(RunConfig(str(tmp_path / "row.csv")))
    with pytest.raises(DataFileError, match=r"no folder '.*nowhere' either"):
        read_rows(RunConfig(str(tmp_path / "nowhere" / "rows.csv")))


def test_an_unknown_ending_lists_the_known_ones(tmp_path):
    (tmp_path / "rows.xyz").write_text("a,b")
    with pytest.raises(DataFileError, match=r"not known, '\.xyz'.*\.csv.*\.npz"):
        read_rows(RunConfig(str(tmp_path / "rows.xyz")))


def test_the_nearest_name_is_found_by_letters_or_by_being_part_of_it():
    assert nearest("Sentnce", ["label", "sentence"]) == "sentence"
    assert nearest("lable", ["text", "label"]) == "label"
    assert nearest("TEXT", ["review_text", "y"]) == "review_text"
    assert nearest("zzz", ["text", "label"]) is None

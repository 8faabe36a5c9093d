"""The page: complete in itself, safe, and readable by everybody."""

import base64
import hashlib
import re
from dataclasses import replace
from itertools import pairwise

import pytest

from tests.ui.html.made_data import HOSTILE, made_data, unjudged
from tests.ui.pages import Page
from turnover.ui.html.page import render

KINDS = ["text", "image", "table"]


@pytest.fixture(scope="module", params=KINDS)
def page(request) -> Page:
    return Page(render(made_data(request.param)))


def test_every_tag_is_closed_and_ids_are_unique(page):
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_nothing_is_loaded_from_anywhere(page):
    links = [attrs.get(name) for _, attrs in page.tags for name in ("src", "href", "srcset", "xlink:href", "data")]
    assert {str(link).split(":")[0] for link in links if link and link[0] != "#"} <= {"data", "report.json"}
    assert not page.all("iframe")
    assert "@import" not in page.texts["style"][0]
    assert "url(" not in page.texts["style"][0]


def test_the_policy_allows_the_one_script_of_the_page_and_no_other(page):
    policy = next(attrs["content"] for attrs in page.all("meta") if attrs.get("http-equiv"))
    assert len(page.all("script")) == 1
    digest = base64.b64encode(hashlib.sha256(page.texts["script"][0].encode()).digest()).decode()
    assert policy is not None
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_the_data_stay_words(kind):
    data = made_data(kind)
    hostile = replace(
        data, overview={**data.overview, "title": HOSTILE, "labels": (HOSTILE, "positive"), "notes": [HOSTILE]}
    )
    text = render(hostile)
    assert len(Page(text).all("script")) == 1
    assert "<img src=x" not in text
    assert "&lt;script&gt;document.title" in text


def test_headings_go_down_one_step_at_a_time(page):
    levels = [int(name[1]) for name, _ in page.tags if re.fullmatch(r"h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_landmarks_name_the_parts_of_the_page(page):
    for landmark in ("header", "nav", "main", "footer"):
        assert len(page.all(landmark)) == 1, landmark
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    for _, attrs in page.tags:
        for name in ("aria-labelledby", "for"):
            assert set((attrs.get(name) or "").split()) <= ids, attrs
        if (attrs.get("href") or "").startswith("#"):
            assert str(attrs["href"])[1:] in ids


def test_every_control_has_a_label_and_every_picture_a_text(page):
    labeled = {attrs.get("for") for attrs in page.all("label")}
    for tag in ("input", "select"):
        assert all(attrs["id"] in labeled for attrs in page.all(tag))
    assert all(attrs.get("alt") for attrs in page.all("img"))
    for _, attrs in page.tags:
        if attrs.get("role") == "img":
            assert attrs.get("aria-labelledby")


def test_tables_have_captions_and_header_cells_say_what_they_head(page):
    captions = len(page.all("caption"))
    compared = sum(attrs.get("class") == "compared" for attrs in page.all("table"))  # these stand within a named region
    assert captions == len(page.all("table")) - compared
    assert all(attrs.get("scope") for attrs in page.all("th"))


@pytest.mark.parametrize(
    "fragment", ["<mark>gorgeous</mark> film", "None is significant: the replicas disagree, or are too few."]
)
def test_marks_and_rules_stand_at_each_of_the_errors(fragment):
    assert render(made_data()).count(fragment) == 2


def test_many_labels_are_listed_by_pairs_and_not_as_a_square():
    data = made_data()
    names = tuple(f"label {number}" for number in range(40))
    text = render(replace(data, overview={**data.overview, "labels": names}))
    assert 'class="matrix"' not in text
    assert "The most frequent confusions" in text


def test_the_longest_report_stays_below_five_megabytes():
    data = made_data("text", rows=504)
    long = tuple(replace(row, text="häßliche Wörter & more " * 18) for row in data.rows)
    found = data.findings
    found = replace(
        found,
        harmful=replace(found.harmful, items=found.harmful.items[:200]),
        memorized=replace(found.memorized, items=found.memorized.items[:200]),
        near_duplicates=replace(found.near_duplicates, items=found.near_duplicates.items * 50),
        errors=replace(found.errors, items=found.errors.items * 12),
    )
    report = replace(data, rows=long, findings=found)
    assert len(render(report).encode()) < 5_000_000
    assert len(report.as_json().encode()) < 5_000_000


def test_label_errors_are_called_likely_with_how_many_to_expect_of_correct_labels():
    data = made_data("text")
    labels = replace(data.findings.likely_label_errors, unseen_rows=100, unseen_disagreements=25)
    text = render(replace(data, findings=replace(data.findings, likely_label_errors=labels)))
    assert '<h2 id="label-errors">Likely label errors</h2>' in text
    assert "Held-out predictions err, too, so check the first rows by eye. " in text
    assert "25.0\xa0% of validation and test labels" in text
    assert text.count('<span class="flag">likely label error</span>') == 2
    assert "Likely label errors</button>" in text


def test_the_unit_of_mean_influence_is_in_its_column_its_caption_and_the_trust_section():
    plain = render(made_data("text"))
    assert plain.count("Mean influence (loss) (×") >= 2
    assert "most harmful first; in units of loss</caption>" in plain
    data = made_data("text")
    harmful = replace(data.findings.harmful, standardized=True)
    scaled = render(replace(data, findings=replace(data.findings, harmful=harmful)))
    assert scaled.count("Mean influence (RMS = 1) (×") >= 2
    assert "most harmful first; in units of the root-mean-square effect" in scaled
    assert "for mean influence in units of the root-mean-square effect" in scaled
    assert "root-mean-square" not in plain


@pytest.mark.parametrize("judged", [True, False])
def test_a_page_speaks_of_significance_only_where_replicas_tell_it(judged):
    data = made_data("text")
    page = render(data if judged else replace(data, findings=unjudged(data.findings)))
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page.partition("<body")[2])).replace("\xa0", " ")
    # Errors, rows and groups; the summary, the section on noise and the tables say it, too.
    assert ("replicas disagree" in text) == judged
    assert ("have no interval" in text) != judged
    harmful = text.partition("Training rows that raise the loss")[2].partition("Self-influence is how much")[0]
    assert ("Significant" in harmful) == judged
    assert "influence functions (K-FAC curvature)" in text


def test_columns_that_are_left_out_are_told():
    data = made_data("table")
    found = replace(data.findings, groups=replace(data.findings.groups, items=()))
    wide = replace(data, findings=found, rows=tuple(replace(row, more_cells=18) for row in data.rows))
    text = render(wide)
    assert "and 18 more columns" in text
    assert "The first 3 of 21 columns; the network was trained on the others, too." in text
    assert "more column" not in render(data)

"""Pages work as plain forms, show data as text and nothing else, and name everything for a screen reader."""

import io
import re

import pytest
from PIL import Image

from tests.ui.pages import Page
from tests.ui.small_runs import BAD, GOOD, SCRIPT

OWN = {"Origin": "http://127.0.0.1:8000"}


def _pages(client) -> dict[str, Page]:
    paths = ("/", "/?row=1", "/?text=a+bright+film", "/rows?split=", "/marks", "/api", "/nothing")
    return {path: Page(client.get(path).text) for path in paths}


@pytest.mark.parametrize("name", ["texts", "images", "tables"])
def test_pages_load_nothing_from_elsewhere_and_hold_no_scripts_or_styles_of_their_own(request, name):
    for path, page in _pages(request.getfixturevalue(name)).items():
        for tag, given in page.tags:
            for attribute in ("src", "href", "action", "srcset"):
                address = given.get(attribute) or "/"
                assert address.startswith(("/", "#", "data:image/png")), (path, tag, address)
                assert not address.startswith("//")
            assert "style" not in given
            assert not [name for name in given if name.startswith("on")]
        assert not page.all("style")
        assert all(given.get("src") == "/static/page.js" for given in page.all("script"))


@pytest.mark.parametrize("name", ["texts", "images", "tables"])
def test_pages_have_a_language_a_title_one_heading_and_names_for_all_fields(request, name):
    for path, page in _pages(request.getfixturevalue(name)).items():
        assert page.all("html")[0]["lang"] == "en"
        assert len(page.all("title")) == 1
        assert len(page.all("h1")) == (path != "/nothing")
        assert page.unlabeled == page.open == [], path
        assert all("alt" in given for given in page.all("img"))
        assert any(given.get("id") == "main" for given in page.all("main"))


def test_text_that_looks_like_html_is_shown_as_text_everywhere(texts, text_run):
    row = next(row for row, text in enumerate(text_run.rows.values) if SCRIPT in text)
    shown = [
        texts.get("/", params={"row": row}),
        texts.get("/", params={"text": f'{SCRIPT} "quoted" </textarea><b>bold</b>'}),
        texts.get("/answer", params={"row": row}),
        texts.get("/rows", params={"words": "<script>", "split": ""}),
        texts.get("/", params={"text": "x", "examples_of": SCRIPT}),
        texts.get(f"/{SCRIPT}"),
    ]
    for answer in shown:
        assert "<script>document" not in answer.text
        assert "</textarea><b>" not in answer.text
    assert SCRIPT in Page(shown[0].text).text
    assert SCRIPT in Page(shown[3].text).text
    assert "bad & <dull>" in Page(shown[0].text).text  # a label
    assert "<dull>" not in shown[0].text


def test_names_of_columns_that_look_like_html_are_shown_as_text(tables):
    page = tables.get("/?row=1")
    assert "<b>size</b>" not in page.text
    assert "<b>size</b>" in Page(page.text).text


def test_a_sentence_asked_by_a_plain_form_is_answered_on_the_page(texts):
    page = texts.get("/", params={"text": "a bright, moving film", "examples_of": "predicted"})
    assert page.status_code == 200
    shown = Page(page.text)
    assert GOOD in shown.text
    assert "Supporting examples" in re.sub(r"\s+", " ", shown.text)
    assert "Opposing examples" in shown.text
    assert shown.all("mark")
    assert len([given for given in shown.all("li") if "example" in (given.get("class") or "")]) >= 10
    assert len(shown.all("meter")) == 2


def test_examples_are_faint_where_the_api_says_that_they_are_not_significant(texts):
    for text in ("a bright, moving film", "boring", "number"):
        answer = texts.post("/api/explain", json={"text": text}).json()
        html = texts.get("/answer", params={"text": text}).text
        supporting = html[: html.index('id="opposing"')]
        if answer["significant_supporting"] == 0:
            assert "None is significant: the replicas disagree" in supporting
        faint = len(answer["supporting"]) - answer["significant_supporting"]
        assert supporting.count('<span class="name">replicas disagree</span>') == faint
        assert supporting.count(" faint") == faint


def test_an_empty_question_gets_a_sentence_on_the_page(texts):
    page = texts.get("/", params={"text": " "})
    assert page.status_code == 422
    assert "Type a sentence" in page.text
    assert texts.get("/", params={"row": "abc"}).status_code == 422
    assert texts.get("/answer").status_code == 422


def test_a_wrong_question_asked_by_the_script_gets_a_part_of_a_page(texts):
    part = texts.get("/answer", params={"text": ""}, headers={"X-Part": "1"})
    assert part.status_code == 422
    assert "<html" not in part.text
    assert 'role="alert"' in part.text


def test_a_row_is_marked_and_the_file_downloaded_by_plain_forms(texts, text_run):
    row = int(text_run.places("train")[0])
    given, right = text_run.rows.labels[row], text_run.label_names[1 - text_run.rows.labels[row]]
    page = Page(texts.get("/", params={"row": row}).text)
    assert {"name": "row", "type": "hidden", "value": str(row)} in page.all("input")
    answer = texts.post("/marks", data={"row": row, "label": right, "action": "mark", "back": "/marks"}, headers=OWN)
    assert answer.status_code == 200
    assert right in Page(answer.text).text
    assert texts.get("/").text.count("data-marks>1<") == 1
    before = (text_run.folder.path.parent / "reviews.csv").read_text().splitlines()
    after = texts.get("/corrected").text.splitlines()
    changed = [place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert changed == [row + 1]
    assert before[row + 1].endswith(text_run.label_names[given])
    assert after[row + 1].endswith(right)
    texts.post("/marks", data={"row": row, "action": "unmark"}, headers=OWN)
    assert texts.get("/api/marks").json() == {"marks": []}


def test_an_image_is_sent_by_a_plain_form(images):
    file = io.BytesIO()
    Image.new("L", (8, 8), 90).save(file, "PNG")
    sent = {"image": ("a.png", file.getvalue(), "image/png")}
    page = images.post("/", files=sent, data={"row": "", "examples_of": "all"}, headers=OWN)
    assert page.status_code == 200
    assert "data:image/png;base64," in page.text
    assert "Supporting examples" in page.text
    bad = images.post("/", files={"image": ("a.png", b"no", "image/png")}, headers=OWN)
    assert bad.status_code == 422
    assert "cannot be read as an image" in bad.text
    nothing = images.post("/", files={"image": ("", b"", "application/octet-stream")}, headers=OWN)
    assert nothing.status_code == 422


def test_the_form_of_a_table_is_filled_with_what_was_asked(tables, table_run):
    fields = {"c:<b>size</b>": "2.5", "c:color": "red", "c:weight": "", "examples_of": "all"}
    page = Page(tables.get("/", params=fields).text)
    shown = {given["name"]: given.get("value") for given in page.all("input") if given.get("name", "").startswith("c:")}
    assert shown == {"c:<b>size</b>": "2.5", "c:weight": ""}
    assert {"selected": None} in page.all("option")
    begun = Page(tables.get("/", params={"row": 3}).text)
    sizes = [given["value"] for given in begun.all("input") if given.get("name") == "c:<b>size</b>"]
    assert float(sizes[0]) == pytest.approx(table_run.rows.values.iloc[3]["<b>size</b>"])


def test_rows_can_be_paged_through_without_losing_any(texts, text_run):
    seen, page = [], 1
    while True:
        html = texts.get("/rows", params={"split": "", "order": "file", "page": page}).text
        seen += [int(number) for number in re.findall(r'class="row" data-row="(\d+)"', html)]
        if 'rel="next"' not in html:
            break
        page += 1
    assert seen == list(range(160))
    assert texts.get("/rows", params={"page": 999}).status_code == 200
    assert "0 rows" in texts.get("/rows", params={"words": "no such words"}).text
    assert texts.get("/rows", params={"label": BAD, "split": "train"}).status_code == 200


def test_a_fault_of_our_own_is_told_without_its_traceback(served, monkeypatch):
    client = served("text")

    def fail(self, question):
        raise ZeroDivisionError("secret of the server")

    monkeypatch.setattr("turnover.ui.web.site.Site.answer_now", fail)
    client._transport.raise_server_exceptions = False  # as a real server does
    answer = client.post("/api/explain", json={"row": 1})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in answer.json()["detail"]


@pytest.mark.parametrize("row", ["²", "٣" * 3, "9" * 5000, "-1", "1e3"])
def test_a_row_that_is_not_a_number_is_no_server_error(tables, texts, row):
    for client in (tables, texts):
        assert client.get("/", params={"row": row}).status_code < 500

"""The live page in a real browser: ask, see examples, mark, download; nothing in the data runs, nothing goes out."""

import csv
import io
import json
import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is missing: make test-browser")

from tests.ui import small_runs
from tests.ui.small_runs import BAD, GOOD, SCRIPT
from turnover.runs.run import Run
from turnover.ui.web import LiveServer, open_server

MAKERS = {"text": small_runs.text_run, "image": small_runs.image_run, "table": small_runs.table_run}


def _until_ready(server: LiveServer) -> None:
    while json.load(urllib.request.urlopen(f"{server.address}api/state"))["state"] == "warming up":
        time.sleep(0.1)


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Run, LiveServer]]]:
    found: dict[str, tuple[Run, LiveServer]] = {}
    try:
        # One after the other: while a model is wrapped, torch.fx looks at the calls of all threads.
        for name, make in MAKERS.items():
            run = make(tmp_path_factory.mktemp(name))
            server = open_server(run, port=0).start()
            found[name] = run, server
            _until_ready(server)
        yield found
    finally:
        for _, server in found.values():
            server.stop()


@pytest.fixture(autouse=True)
def nothing_odd(browser, live) -> Iterator[None]:
    """After every test: no mark is left, the console is silent and nothing left the machine."""
    yield
    assert browser.errors() == []
    assert browser.outside() == []
    for run, server in live.values():
        for mark in json.load(urllib.request.urlopen(f"{server.address}api/marks"))["marks"]:
            gone = urllib.request.Request(f"{server.address}api/marks/{mark['row']}", method="DELETE")
            urllib.request.urlopen(gone).close()
        assert run.complete


def _ask(browser, text: str) -> None:
    box = browser.one("#text")
    box.clear()
    box.send_keys(text)
    browser.one("#ask button.main").click()
    browser.until(lambda: browser.all("#answer .predicted") and not browser.all("#answer[aria-busy]"), "an answer")


def _rows(browser, side: str) -> list[int]:
    return [int(li.get_attribute("data-row")) for li in browser.all(f"section[aria-labelledby={side}] li.example")]


def test_a_typed_sentence_shows_a_prediction_and_the_rows_behind_it(browser, live):
    run, server = live["text"]
    browser.open(server.address)
    _ask(browser, "a bright and moving film")
    assert browser.one(".predicted").text == GOOD
    answer = urllib.request.Request(
        f"{server.address}api/explain",
        json.dumps({"text": "a bright and moving film"}).encode(),
        {"Content-Type": "application/json"},
    )
    wanted = json.load(urllib.request.urlopen(answer))
    assert _rows(browser, "supporting") == [example["row"] for example in wanted["supporting"]]
    assert _rows(browser, "opposing") == [example["row"] for example in wanted["opposing"]]
    first = browser.one("section[aria-labelledby=supporting] li.example")
    assert run.rows.values[wanted["supporting"][0]["row"]] in first.text
    assert "±" in first.text
    assert {mark.text for mark in browser.all("#answer mark")} <= {"bright", "moving", "film"}
    assert browser.all("#answer mark")
    assert len(browser.visible("meter")) == 2


def test_enter_asks_and_the_answer_can_be_gone_back_to(browser, live):
    browser.open(live["text"][1].address)
    browser.one("#text").send_keys("boring and flat\n")
    browser.until(lambda: browser.all("#answer .predicted"), "an answer")
    assert browser.one(".predicted").text == BAD
    assert "text=boring" in browser.driver.current_url
    _ask(browser, "a warm story")
    browser.driver.back()
    browser.until(lambda: "boring" in (browser.one("#text").get_attribute("value") or ""), "the former question")
    assert browser.one(".predicted").text == BAD


def test_examples_are_filtered_by_label_at_once(browser, live):
    browser.open(live["text"][1].address)
    _ask(browser, "a bright and moving film")
    for label in (BAD, GOOD):
        choice = browser.one("select[name=examples_of]")
        for option in choice.find_elements("css selector", "option"):
            if option.text == label:
                option.click()
        browser.until(
            lambda label=label: {li.get_attribute("data-label") for li in browser.all("li.example")} == {label},
            f"rows of {label} only",
        )


def test_a_row_is_marked_and_the_corrected_csv_is_downloaded(browser, live):
    run, server = live["text"]
    browser.open(server.address)
    _ask(browser, "a bright and moving film")
    row = _rows(browser, "supporting")[0]
    given = run.label_names[run.rows.labels[row]]
    right = run.label_names[1 - run.rows.labels[row]]
    box = f"section[aria-labelledby=supporting] .mark-state[data-row='{row}']"
    browser.one(f"{box} summary").click()
    form = browser.one(f"{box} form.mark")
    assert form.find_element("css selector", "select").get_attribute("value") == right  # it is suggested
    form.find_element("css selector", "button[value=mark]").click()
    browser.until(lambda: "Marked" in browser.one(box).text, "the mark")
    assert f"{right} instead of {given}" in browser.one(box).text
    assert browser.one("[data-marks]").text == "1"
    browser.one("nav a[href='/marks']").click()
    assert run.rows.names[row] in browser.one(".row").text
    browser.one("a[href='/corrected']").click()
    file = browser.until(lambda: next(iter(browser.downloads.glob("*.csv")), None), "the download")
    browser.until(lambda: not list(browser.downloads.glob("*.crdownload")), "the end of the download")
    before = list(csv.reader(io.StringIO(Path(run.config.data).read_text(encoding="utf-8"))))
    after = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"))))
    before[row + 1][2] = right
    assert file.name == "reviews-corrected.csv"
    assert after == before


def test_a_mark_is_taken_back(browser, live):
    run, server = live["text"]
    browser.open(f"{server.address}rows?split=train")
    row = browser.one("li.row").get_attribute("data-row")
    box = f".mark-state[data-row='{row}']"
    browser.one(f"{box} summary").click()
    browser.one(f"{box} button[value=remove]").click()
    browser.until(lambda: "to be removed" in browser.one(box).text, "the mark")
    browser.one(f"{box} button[value=unmark]").click()
    browser.until(lambda: browser.all(f"{box} summary"), "the mark to go")
    assert browser.one("[data-marks]").text == "0"
    assert run.complete


def test_a_script_in_the_data_is_shown_as_text_and_does_not_run(browser, live):
    run, server = live["text"]
    row = next(place for place, text in enumerate(run.rows.values) if SCRIPT in text)
    for address in (f"?row={row}", "rows?split=&words=script", f"?text={urllib.request.quote(SCRIPT)}+film"):
        browser.open(server.address + address)
        shown = browser.run("return document.body.innerText")
        assert SCRIPT in shown or SCRIPT in (browser.one("#text").get_attribute("value") or "")
        assert "taken over" not in browser.driver.title
    _ask(browser, f"{SCRIPT} <img src=x onerror=\"document.title='taken over'\"> a bright film")
    assert SCRIPT in browser.one("#answer .asked").text
    assert "taken over" not in browser.driver.title
    assert browser.run("return document.querySelectorAll('#answer script, #answer img').length") == 0


def test_an_image_is_uploaded_and_answered(browser, live, tmp_path):
    from PIL import Image

    run, server = live["image"]
    row = int(run.places("test")[0])
    picture = tmp_path / "bar.png"
    Image.fromarray(run.rows.values[row][..., 0]).save(picture)
    browser.open(server.address)
    browser.one("input[type=file]").send_keys(str(picture))
    browser.until(lambda: browser.all("#answer .predicted"), "an answer")
    assert browser.one(".predicted").text == run.label_names[run.predict(run.rows.values[row : row + 1])[0].argmax()]
    assert browser.one("img.asked").get_attribute("src").startswith("data:image/png")
    shown = browser.run(
        "return [...document.querySelectorAll('li.example img')].map(i => i.complete && i.naturalWidth)"
    )
    assert len(shown) >= 5
    browser.until(
        lambda: browser.run(
            "return [...document.querySelectorAll('li.example img')].every(i => {"
            "i.loading = 'eager'; return i.complete && i.naturalWidth === 8})"
        ),
        "all pictures",
    )


def test_a_value_of_a_table_is_edited_and_the_prediction_follows(browser, live):
    browser.open(f"{live['table'][1].address}?row=0")
    for value, wanted in (("-2.5", "small"), ("2.5", "large")):
        field = browser.one("input[name='c:<b>size</b>']")
        field.clear()
        field.send_keys(value)
        browser.one("#ask button.main").click()
        browser.until(lambda wanted=wanted: browser.one(".predicted").text == wanted, wanted)
    assert browser.all("li.example .cells")


def test_without_scripts_plain_forms_do_the_same(browser, live):
    browser.without_scripts()
    run, server = live["text"]
    browser.open(server.address)
    browser.one("#text").send_keys("a bright and moving film")
    browser.one("#ask button.main").click()
    assert browser.one(".predicted").text == GOOD
    row = _rows(browser, "supporting")[0]
    box = f"section[aria-labelledby=supporting] .mark-state[data-row='{row}']"
    browser.one(f"{box} summary").click()
    browser.one(f"{box} button[value=mark]").click()
    browser.until(lambda: "Marked" in browser.one(box).text, "the mark")
    assert "text=a+bright" in browser.driver.current_url  # back where it was
    assert run.complete


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", ["text", "image", "table"])
def test_pages_fit_a_phone_and_can_be_read_in_light_and_dark(browser, live, name, width, scheme):
    browser.resize(width, 800)
    browser.prefer(scheme)
    for page in ("?row=1", "rows?split=", "marks", "api"):
        browser.open(live[name][1].address + page)
        wide = browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1], page
        colors = browser.run(
            "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor].map(c => c.match(/\\d+/g))"
        )
        ink, ground = (sum(int(part) for part in color[:3]) for color in colors)
        assert (ink < 150 < 600 < ground) if scheme == "light" else (ground < 150 < 600 < ink)


def test_everything_is_reached_with_the_keyboard_and_has_a_name(browser, live):
    browser.open(f"{live['text'][1].address}?text=a+bright+film")
    names = browser.run(
        "return [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary')]"
        ".map(e => [e.tagName, (e.textContent || e.getAttribute('aria-label') || e.title || '').trim()"
        " || [...(e.labels || [])].map(l => l.textContent).join(' ').trim(), e.tabIndex])"
    )
    assert len(names) > 30
    for tag, name, place in names:
        assert name, tag
        assert place >= 0
    assert browser.run("return document.getElementById('answer').getAttribute('aria-live')") == "polite"


def test_a_server_that_is_gone_is_told_of(browser, tmp_path_factory):
    run = small_runs.table_run(tmp_path_factory.mktemp("gone"))
    server = open_server(run, port=0).start()
    try:
        _until_ready(server)
        browser.open(f"{server.address}?row=0")
    finally:
        server.stop()
    browser.one("#ask button.main").click()
    browser.until(lambda: "does not respond" in browser.one("#answer").text, "a sentence")
    lost = browser.errors()
    assert all(re.search(r"ERR_CONNECTION", message) for message in lost)
    browser.console.clear()
